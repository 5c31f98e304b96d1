"""The fields of a recipe, by group: [data], [tokenizer], [objective], [train], [adapter],
[distributed]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator, Field

from glassformer.config import Count, Pool, Size
from glassformer.strict import Strict


@dataclass(frozen=True)
class PathField:
    """Marks a field of the schema that holds a path."""

    of_model: bool = False  # it may also be the name of a model that comes with the package


MOST_TOKENS = 1_000_000  # of a tokenizer: the library allocates them at once
MOST_STEPS = 10**8 - 1  # the name of a checkpoint has eight digits
DataPath = Annotated[str, PathField()]
ModelPath = Annotated[str, PathField(of_model=True)]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
ColumnNumber = Annotated[int, Field(ge=-1_000, le=1_000)]


class SourceConfig(Strict):
    train: DataPath = Field(min_length=1)  # a file or folder, below the data root
    # What ends a document: a blank line, the end of the file, or each line (also of tables).
    document: Literal["blank", "file", "line"] = "blank"
    field: str = "text"  # the text column of JSONL, CSV and TSV files
    # Of the tokens of an epoch, those of this source; all sources have one, or none.
    share: float | None = Field(default=None, gt=0.0, le=1.0)


class DataConfig(SourceConfig):
    more: tuple[SourceConfig, ...] = ()  # further sources, read after the first one
    valid: DataPath | None = None  # validation data; without it a part of train is held out
    valid_fraction: float = Field(default=0.05, ge=0.0, lt=1.0)  # the size of that part
    deduplicate: bool = False  # skip repeated documents and lines, and those in the validation data
    languages: tuple[str, ...] = ()  # parallel files: ("en", "ru") reads train.en and train.ru
    # Columns of labelled data; guessed from their names, and logged, if not given. Objectives
    # without labels read the text columns of such a table if `text` is given, with the same split.
    text: str | None = None
    text_pair: str | None = None  # the second text of a pair
    label: str | None = None  # the column of the label
    header: tuple[str, ...] = ()  # column names, for files without a header line
    # Between columns: of a .csv file, if it is not the comma, semicolon or tab of the header line;
    # of a file with another name, where quotation marks have no meaning.
    separator: str | None = Field(default=None, min_length=1)
    encoding: str = "utf-8"  # of text files and tables, such as utf-16 or cp1252
    label_prefix_separator: str | None = None  # cut the label here: DESC in DESC:manner
    label_separator: str | None = Field(default=None, min_length=1)  # several labels per text: a|b
    # The column of CoNLL files; the last one (or upos) if not given.
    tag: ColumnNumber | str | None = None
    workers: Annotated[int, Field(ge=1, le=1_000)] = 1  # processes that encode the text
    skip_bad: bool = False  # count and log unusable rows and files, do not stop
    fold: str | None = None  # hold out part 3/10 …
    fold_by: Literal["text", "name"] = "text"  # … chosen by hash, or by file name in each label

    @property
    def sources(self) -> tuple[SourceConfig, ...]:
        """All training sources."""
        return (self, *self.more)

    def key(self) -> dict[str, Any]:
        """The fields that decide which ids are written."""
        fields = self.model_dump(mode="json", exclude={"workers"})
        for source in (fields, *fields["more"]):
            if source["share"] is None:
                del source["share"]
        return fields

    @property
    def shares(self) -> tuple[float, ...]:
        """Those of all sources; empty if they are read as they are."""
        return tuple(source.share for source in self.sources if source.share is not None)

    def source(self, number: int) -> DataConfig:
        """One of the sources, alone."""
        source = self.sources[number]
        alone = {name: getattr(source, name) for name in SourceConfig.model_fields}
        return self.model_copy(update={**alone, "share": None, "more": ()})

    @property
    def splits(self) -> bool:
        """Whether a part of train is held out."""
        return self.valid is None and (self.valid_fraction > 0.0 or self.fold is not None)

    @property
    def held(self) -> tuple[float, float]:
        """The range of hashes, as shares of all hashes, that is held out."""
        if self.fold is None:
            return 0.0, self.valid_fraction
        number, count = map(int, self.fold.split("/"))
        return (number - 1) / count, number / count

    def part(self, name: str) -> tuple[SourceConfig, ...]:
        """The sources that "train" or "valid" is read from."""
        if name == "valid" and self.valid is not None:
            return (SourceConfig(train=self.valid, document=self.document, field=self.field),)
        return self.sources


class TokenizerConfig(Strict):
    path: DataPath | None = None  # a folder with a tokenizer; without it one is trained
    # How one is trained; if not given, wordpiece for an encoder, else bpe.
    kind: Literal["bpe", "wordpiece", "unigram", "chars", "bytes"] | None = None
    # The most tokens; not for chars and bytes.
    vocab_size: int = Field(default=8_000, ge=1, le=MOST_TOKENS)
    lowercase: bool = False  # convert text to lower case


class ObjectiveConfig(Strict):
    kind: str  # what is learnt: the name of a module in objectives/
    length: Size  # the longest text in tokens, special tokens included
    mask_rate: float = Field(default=0.15, gt=0.0, lt=1.0)  # the share of tokens to predict
    mask_unit: Literal["token", "word", "span"] = "token"  # what is masked as a whole
    sentence_order: bool = False  # swap the two texts, instead of drawing a random second one
    short_pair_fraction: float = Field(default=0.1, ge=0.0, le=1.0)  # pairs shorter than `length`
    label_smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)  # probability of other tokens
    # Labels are numbers to predict; if not given, they are if one has a fraction, like 3.5.
    regression: bool | None = None
    class_weights: Literal["balanced"] | None = None  # rare classes count as much as common ones
    pool: Pool | None = None  # how token vectors become one; the model's default if not given
    token_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # of words, for pool = "words"…
    overlap: Count = 64  # tokens that neighbouring windows of a context share
    scale: float = Field(default=20.0, gt=0.0, le=1e6)  # factor of cosines in the contrastive loss
    symmetric: bool = False  # contrastive loss in both directions
    max_score: float = Field(default=1.0, gt=0.0, le=1e9)  # the label that means a cosine of 1
    # Texts longer than `length` are counted and logged. warn: plain text is read in parts, pairs
    # are skipped. error: the run does not start. window: nothing may be skipped.
    on_truncate: Literal["warn", "error", "window"] = "warn"


TrackerName = Literal["tensorboard", "wandb", "mlflow"]


def _one_or_more(names: Any) -> Any:
    return (names,) if isinstance(names, str) else names


class TrainConfig(Strict):
    steps: int = Field(default=0, ge=0, le=MOST_STEPS)  # the length of the run: either steps …
    epochs: float | None = Field(default=None, gt=0, le=MOST_STEPS)  # … or passes over the data
    micro_batch_tokens: Size | Literal["auto"] = 4_096  # tokens in one forward pass
    # Forward passes in a step, over all processes.
    micro_batches: int = Field(default=1, ge=1, le=100_000)
    learning_rate: float = Field(default=1e-3, gt=0, le=1e3)  # the highest, after the warm-up
    # How the learning rate falls after the warm-up; wsd: it stays, then falls at the end.
    schedule: Literal["constant", "linear", "cosine", "wsd", "inverse_sqrt"] = "cosine"
    # Steps; below 1: a share of all steps.
    warmup: int | float = Field(default=100, ge=0, le=MOST_STEPS)
    decay_fraction: float = Field(default=0.2, ge=0.0, le=1.0)  # wsd: the decaying part at the end
    min_lr_ratio: float = Field(default=0.1, ge=0.0, le=1.0)  # the last learning rate / the highest
    optimiser: Literal["adamw", "muon"] = "adamw"  # muon: for matrices; AdamW for the rest
    betas: tuple[Beta, Beta] = (0.9, 0.95)  # of AdamW's moving averages
    eps: float = Field(default=1e-8, gt=0, le=1)  # of AdamW
    weight_decay: float = Field(default=0.1, ge=0, le=1e3)  # of matrices
    # The factor from each block's learning rate to that of the block below.
    layerwise_lr_decay: float = Field(default=1.0, gt=0.0, le=1.0)
    freeze: Count = 0  # embeddings and so many of the lowest blocks stay
    max_grad_norm: float = Field(default=1.0, gt=0, le=1e9)  # longer gradients are scaled down
    ema_decay: float = Field(default=0.0, ge=0.0, lt=1.0)  # moving average of weights; 0: none
    precision: Literal["float32", "bfloat16"] = "float32"  # of forward and backward passes
    compile: bool = False  # by torch.compile: faster on a GPU after some minutes
    cuda_graphs: bool = False  # capture a micro-batch once, then replay it
    activation_checkpointing: bool = False  # less memory, more time
    deterministic: bool = False  # the same bits again on a GPU, but slower
    workers: int = Field(default=0, ge=0, le=1_000)  # processes that prepare batches
    # Decides initial weights, dropout and the order of the data.
    seed: int = Field(default=0, ge=0, lt=1 << 62)
    evaluate_every: Size = 250  # steps; with epochs, one epoch if not given
    bleu_sentences: Count = 0  # validation sentences translated for BLEU, chrF
    # The validation metric that chooses the best checkpoint; without it the loss, or the first
    # metric of labelled data.
    best_by: str | None = None
    save_every: Size = 250  # steps; with epochs, one epoch if not given
    keep_checkpoints: Size = 2  # besides the best one
    patience: Size | None = None  # evaluations without improvement before stopping
    # A gradient this many times its usual norm is skipped. 10 if not given; never for labelled
    # data, where one wrong label among memorised texts gives such a gradient.
    grad_spike_factor: float | None = Field(default=None, gt=1.0, le=1e9)
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"  # auto: a GPU if there is one
    # Where the curves go: tensorboard (in the run's folder), wandb, mlflow; one, or a list.
    trackers: Annotated[tuple[TrackerName, ...], BeforeValidator(_one_or_more)] = ()


class AdapterConfig(Strict):
    """LoRA: the model stays as it is, and small matrices beside its linear maps are trained."""

    rank: int = Field(default=8, ge=1, le=4_096)  # the size between the two matrices
    alpha: float = Field(default=16.0, gt=0.0, le=1e6)  # their product counts alpha / rank times
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # of what the matrices read
    # The linear maps: names of ours or of transformers, their last parts, or patterns with *.
    targets: Annotated[tuple[str, ...], BeforeValidator(_one_or_more)] = ("all-linear",)
    dora: bool = False  # also train the length of each row of the changed weights
    merge: bool = False  # also write the model with the adapter merged into its weights


class DistributedConfig(Strict):
    # Several processes: none: each holds the whole model (DDP). full: each holds a share of the
    # weights, gradients and optimiser's state (FSDP2). auto: full if the whole would fill more than
    # half of a GPU's memory.
    shard: Literal["auto", "none", "full"] = "auto"


class RecipeFields(Protocol):
    """What an objective may read of a recipe."""

    @property
    def data(self) -> DataConfig: ...
    @property
    def tokenizer(self) -> TokenizerConfig: ...
    @property
    def model(self) -> Mapping[str, Any]: ...
    @property
    def objective(self) -> ObjectiveConfig: ...
    @property
    def train(self) -> TrainConfig: ...
    @property
    def adapter(self) -> AdapterConfig | None: ...
    @property
    def distributed(self) -> DistributedConfig: ...
    @property
    def init_from(self) -> str | None: ...
    @property
    def random_init(self) -> bool: ...
