"""A recipe: everything that decides a run, in one TOML file. Reading it costs no torch."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from glassformer.config import (
    ModelConfig,
    Named,
    Pool,
    Strict,
    TaskConfig,
    TokenIds,
    read,
)
from glassformer.errors import ConfigError
from glassformer.presets import PRESETS
from glassformer.recipe.paths import (
    DataPath,
    ModelPath,
    expanded,
    from_caller,
    from_recipe,
    map_paths,
)
from glassformer.recipe.toml import read_fields
from glassformer.recipe.validation import LABELLED as LABELLED
from glassformer.recipe.validation import check_agreement


class SourceConfig(Strict):
    train: DataPath = Field(min_length=1)  # a file or folder, below the data root
    # What ends a document: a blank line, the file, or each line (of tables, too).
    document: Literal["blank", "file", "line"] = "blank"
    field: str = "text"  # of JSONL, CSV and TSV


class DataConfig(SourceConfig):
    more: tuple[SourceConfig, ...] = ()  # read behind it, each in its own way
    valid: DataPath | None = None  # another one; if not given, a part of train is held out
    valid_fraction: float = Field(default=0.05, ge=0.0, lt=1.0)  # that part
    deduplicate: bool = False  # leave out documents and lines that were there, or are held out
    languages: tuple[str, ...] = ()  # parallel files: ("en", "ru") reads train.en and train.ru
    # Labelled data: which columns to read; guessed by their names, and told, if not given. Where
    # text alone is learnt, `text` makes it read such a table, and hold out what that holds out.
    text: str | None = None
    text_pair: str | None = None  # of pairs of texts
    label: str | None = None
    header: tuple[str, ...] = ()  # the columns' names, of files that do not begin with them
    separator: str | None = None  # of columns, in files that are no .tsv, .csv, .jsonl, .parquet
    label_prefix_separator: str | None = None  # a label ends before this: DESC of DESC:manner
    label_separator: str | None = Field(default=None, min_length=1)  # a text has any number: a|b
    tag: int | str | None = None  # the column of CoNLL files; the last one if not given, or upos
    skip_bad: bool = False  # count and tell rows that cannot be used, instead of stopping
    fold: str | None = None  # hold out part 3/10,
    fold_by: Literal["text", "name"] = "text"  # by hash; or of each label's files, by their names

    @property
    def sources(self) -> tuple[SourceConfig, ...]:
        """All that is trained on."""
        return (self, *self.more)

    @property
    def splits(self) -> bool:
        """Is a part of train held out?"""
        return self.valid is None and (self.valid_fraction > 0.0 or self.fold is not None)

    @property
    def held(self) -> tuple[float, float]:
        """Which texts: those whose hash is in here."""
        if self.fold is None:
            return 0.0, self.valid_fraction
        number, count = map(int, self.fold.split("/"))
        return (number - 1) / count, number / count


class TokenizerConfig(Strict):
    path: DataPath | None = (
        None  # a folder with a tokenizer; if not given, one is trained on the data
    )
    kind: Literal["bpe", "wordpiece", "unigram", "chars", "bytes"] | None = None
    vocab_size: PositiveInt = 8_000
    lowercase: bool = False


class ObjectiveConfig(Strict):
    kind: Literal[
        "causal_lm",
        "masked_lm",
        "masked_lm_nsp",
        "translation",
        "classification",
        "token_classification",
        "question_answering",
        "sentence_embedding",
    ]
    length: PositiveInt  # the longest text, in tokens with all special ones
    mask_rate: float = Field(default=0.15, gt=0.0, lt=1.0)
    mask_unit: Literal["token", "word", "span"] = "token"
    sentence_order: bool = False  # masked_lm_nsp: swap the texts, instead of taking a random one
    # masked_lm_nsp: the share of pairs shorter than `length`, down to two sentences; BERT's
    short_pair_fraction: float = Field(default=0.1, ge=0.0, le=1.0)
    label_smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)
    class_weights: Literal["balanced"] | None = None  # rare classes count as much as common ones
    pool: Pool | None = None  # what stands for a text; as is usual, if not given
    token_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)  # words and hierarchy: left out
    overlap: int = Field(default=64, ge=0)  # tokens that neighbouring windows of a context share
    scale: float = Field(default=20.0, gt=0.0)  # embed: of cosines, before they choose a partner
    symmetric: bool = False  # embed: both sides choose
    max_score: float = Field(default=1.0, gt=0.0)  # embed: the label that is a cosine of 1
    # What is longer than `length` is counted and told. warn: and the run goes on: plain text is
    # read in parts, pairs that do not fit are left out. error: it does not begin. window: nothing
    # may be left out, so it is not for pairs.
    on_truncate: Literal["warn", "error", "window"] = "warn"


class TrainConfig(Strict):
    steps: int = Field(default=0, ge=0)  # these, or
    epochs: float | None = Field(default=None, gt=0)  # how often each text is read
    micro_batch_tokens: PositiveInt | Literal["auto"] = (
        4_096  # in a row: what goes through the model at once
    )
    micro_batches: PositiveInt = (
        1  # in a step, over all processes: more than fit are done one by one
    )
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "linear", "cosine", "wsd", "inverse_sqrt"] = "cosine"
    warmup: int | float = Field(default=100, ge=0)  # steps; below 1: that share of all
    decay_fraction: float = Field(default=0.2, ge=0.0, le=1.0)  # wsd: the last part that goes down
    min_lr_ratio: float = Field(default=0.1, ge=0.0, le=1.0)  # what is left of the rate at the end
    optimiser: Literal["adamw", "muon"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.1, ge=0)
    layerwise_lr_decay: float = Field(
        default=1.0, gt=0.0, le=1.0
    )  # of the rate, from block to block down
    freeze: int = Field(default=0, ge=0)  # so many of the lowest blocks, and the embeddings
    max_grad_norm: float = Field(default=1.0, gt=0)
    ema_decay: float = Field(
        default=0.0, ge=0.0, lt=1.0
    )  # moving average of weights; 0.999 is usual
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    cuda_graphs: bool = (
        False  # on a GPU: a row's kernels are recorded once, then start with one call
    )
    activation_checkpointing: bool = (
        False  # forget activations and make them again: less memory, more time
    )
    deterministic: bool = False
    workers: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    evaluate_every: PositiveInt = 250  # with epochs: after each one, if not given
    bleu_sentences: int = Field(
        default=0, ge=0
    )  # held-out sentences, at each evaluation: BLEU, chrF
    # The held-out figure that chooses the result; the loss, or of labelled data its first metric.
    best_by: str | None = None
    save_every: PositiveInt = 250  # with epochs: after each one, if not given
    keep_checkpoints: PositiveInt = 2  # checkpoints, beside the best one
    patience: PositiveInt | None = None  # evaluations without a better figure, then it stops
    grad_spike_factor: float | None = Field(
        default=None, gt=1.0
    )  # so many times its usual size a gradient
    # is bad; 10 if not given, and never of labelled data: a wrong label among many texts that are
    # known by heart gives one, and clipping is enough
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    tensorboard: bool = False  # curves in the run's folder, for `tensorboard --logdir`


METRICS: dict[str, tuple[str, ...]] = {
    "translation": ("bleu", "chrf"),
    "classification": (
        "accuracy",
        "f1",
        "macro_f1",
        "mcc",
        "micro_f1",
        "exact_match",
        "pearson",
        "spearman",
    ),
    "token_classification": ("entity_f1", "accuracy"),
    "question_answering": ("f1", "exact_match"),
    "sentence_embedding": ("spearman", "pearson", "accuracy"),
}  # fmt: skip


class Recipe(Named):
    name: str = Field(pattern=r"^[\w.-]+$")
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: Mapping[str, Any] = {}  # a preset and fields of ModelConfig that differ from it
    objective: ObjectiveConfig
    train: TrainConfig
    root: DataPath | None = None  # where the data lies, if not beside this file
    # A model folder to go on from: [tokenizer] and [model] are its; dropout alone can be changed.
    init_from: ModelPath | None = None
    random_init: bool = False  # of `init_from` take the network and the tokenizer, not the weights

    @model_validator(mode="after")
    def _check(self) -> Self:
        if RESERVED.fullmatch(self.name):
            raise ValueError(
                f"name = {self.name!r}: not every system has such a folder: write another"
            )
        if len(self.data.languages) not in (0, 2):
            raise ValueError(f"data.languages = {list(self.data.languages)}: write two, or none")
        check_agreement(self)
        kind, cut = self.objective.kind, self.objective.on_truncate
        if cut == "window" and kind not in (
            "causal_lm",
            "masked_lm",
            "token_classification",
            "question_answering",
        ):
            raise ValueError(
                "objective.on_truncate = 'window': a pair cannot be read in parts: write 'warn' "
                "(those that do not fit are left out and counted) or 'error'"
            )
        known, by = ("loss", *METRICS.get(kind, ())), self.train.best_by
        if by is not None and by not in known:
            raise ValueError(f"train.best_by = {by!r}: write one of {', '.join(known)}")
        if by in METRICS["translation"] and not self.train.bleu_sentences:
            raise ValueError(
                f"train.best_by = {by!r} needs translations: write how many sentences in "
                "train.bleu_sentences, such as 500"
            )
        if (self.train.steps > 0) == (self.train.epochs is not None):
            raise ValueError("write train.steps or train.epochs: one of them")
        tokens = self.train.micro_batch_tokens
        if tokens != "auto" and tokens < self.objective.length:
            raise ValueError(
                f"train.micro_batch_tokens = {tokens} is less than objective.length = "
                f"{self.objective.length}: a row must hold the longest text"
            )
        return self


# No name of a folder on Windows, or (of dots) the name of another one.
RESERVED = re.compile(r"\.*|.*\.|(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
SHORT = re.compile(r"[+-]?(\.\d+|\d+\.)(e[+-]?\d+)?", re.IGNORECASE)  # TOML wants 0.3 and 3.0
FAMILY = {
    "causal_lm": ("decoder", "causal_lm", "gpt2"),
    "masked_lm": ("encoder", "masked_lm", "bert-tiny"),
    "masked_lm_nsp": ("encoder", "masked_lm_nsp", "bert-tiny"),
    "translation": ("seq2seq", "translation", "marian-base"),
    "classification": ("encoder", "classification", "bert-tiny"),
    "token_classification": ("encoder", "token_classification", "bert-tiny"),
    "question_answering": ("encoder", "question_answering", "bert-tiny"),
    "sentence_embedding": ("encoder", "features", "bert-tiny"),
}
# Sizes that follow from others, unless they are written.
FOLLOWING = (
    "head_width", "value_width", "key_heads", "embedding_width", "decoder_depth", "output_bias",
)  # fmt: skip


def read_recipe(path: Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """The recipe of a file, or of a run's folder, with single fields replaced:
    {"train.steps": "100"}."""
    return recipe_from(recipe_fields(path), changes or {}, str(path))


def recipe_fields(path: Path) -> dict[str, Any]:
    """What the file says; the model to start from is relative to the file."""
    path = expanded(path)
    folder = path if path.is_dir() else path.parent
    fields: dict[str, Any] = map_paths(Recipe, read_fields(path), from_recipe(folder))
    return fields


def recipe_from(fields: dict[str, Any], changes: Mapping[str, str], source: str) -> Recipe:
    for name, text in changes.items():
        _put(fields, name, text)
    for name, other in (("steps", "epochs"), ("epochs", "steps")):
        if f"train.{name}" in changes and f"train.{other}" not in changes:
            fields["train"].pop(other, None)
    recipe = read(Recipe, _tuples(fields), source)
    if (
        recipe.init_from is None
    ):  # a mistake in [model] is found before hours of preparing, not after
        model_config(recipe, recipe.tokenizer.vocab_size, TokenIds(), source)
    return recipe


def model_config(recipe: Recipe, vocab_size: int, ids: TokenIds, source: str) -> ModelConfig:
    """What the recipe's [model] says, on the preset it names (or the objective's usual one)."""
    family, _, usual = FAMILY[recipe.objective.kind]
    fields = dict(recipe.model)
    name = fields.pop("preset", usual)
    if name not in PRESETS:
        raise ConfigError(f"{source}: model.preset = {name!r}: write one of {', '.join(PRESETS)}")
    preset = PRESETS[name].model
    if preset.family != family:
        raise ConfigError(
            f"{source}: model.preset = {name!r} is a {preset.family}, and objective.kind = "
            f"{recipe.objective.kind!r} needs a {family}"
        )
    known = preset.model_dump()
    known |= dict.fromkeys(n for n in FOLLOWING if known[n] == _following(n, known))
    known |= {"vocab_size": vocab_size, "ids": ids.model_dump()}
    known["max_length"] = recipe.objective.length
    config = read(ModelConfig, _merged(known, fields), f"{source}: model")
    if config.max_length < recipe.objective.length:
        raise ConfigError(
            f"{source}: objective.length = {recipe.objective.length}: the model reads at most "
            f"model.max_length = {config.max_length} tokens"
        )
    return config


def task_config(recipe: Recipe, config: ModelConfig) -> TaskConfig:
    _, kind, _ = FAMILY[recipe.objective.kind]
    marian = kind == "translation" and config.position != "relative"  # T5's last map has no bias
    bias = marian or kind in ("masked_lm", "masked_lm_nsp")
    return TaskConfig(kind=kind, bias=bias)  # type: ignore[arg-type]


def with_dropout(recipe: Recipe, config: ModelConfig, source: str) -> ModelConfig:
    """The config of a model to go on from, with the recipe's dropout: no weight depends on it."""
    return read(ModelConfig, _merged(config.model_dump(), recipe.model), f"{source}: model")


def _merged(known: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Of a group, such as dropout, only what is written changes."""
    for name, value in fields.items():
        group = known.get(name)
        if isinstance(group, dict) and isinstance(value, Mapping):
            known[name] = {**group, **value}
        else:
            known[name] = value
    return known


def _following(size: str, known: Mapping[str, Any]) -> Any:
    return {
        "head_width": known["width"] // known["heads"],
        "value_width": known["head_width"],
        "key_heads": known["heads"],
        "embedding_width": known["width"],
        "decoder_depth": known["depth"],
        "output_bias": known["attention_bias"],
    }[size]


def _put(fields: dict[str, Any], name: str, text: str) -> None:
    *groups, last = name.split(".")
    for group in groups:
        fields = fields.setdefault(group, {})
        if not isinstance(fields, dict):
            raise ConfigError(f"--{name}: {group!r} is a value, not a group")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:  # a word needs no quotes on the command line, .3 no nought
        value = float(text) if SHORT.fullmatch(text) else text
    fields[last] = _from_caller(name.split("."), value)


def _from_caller(names: list[str], value: Any) -> Any:
    """The value of one field: its paths are relative to the working directory."""
    for name in reversed(names):
        value = {name: value}
    value = map_paths(Recipe, value, from_caller)
    for name in names:
        value = value[name]
    return value


def _tuples(fields: Any) -> Any:
    """TOML has lists; the config's are fixed."""
    if isinstance(fields, dict):
        return {name: _tuples(value) for name, value in fields.items()}
    return tuple(_tuples(each) for each in fields) if isinstance(fields, list) else fields
