"""The structure of a model. Each field names a structure, never a model.

Nothing here imports torch, so that reading and checking a config is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from glassformer.errors import with_article
from glassformer.strict import Named, Strict

Family = Literal["encoder", "decoder", "seq2seq"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Position = Literal["learned", "sinusoidal", "rotary", "relative", "none"]
# sin cos sin cos, or all sines first; inclusive: the slowest wave is exactly 10000·2π long.
Sinusoid = Literal["interleaved", "halves", "halves_inclusive"]
TaskKind = Literal[
    "features", "masked_lm", "masked_lm_nsp", "next_sentence", "causal_lm", "translation",
    "classification", "token_classification", "question_answering",
]  # fmt: skip
Pooler = Literal["tanh", "relu", "gelu", "transform"]  # transform: activation, then a norm
# The vector of a text: its first or last token's, or their mean; or attention over its words, or
# over the words of each sentence and then over the sentences.
Pool = Literal["first", "last", "mean", "words", "hierarchy"]
DOCUMENTS = ("words", "hierarchy")  # these accept texts longer than max_length
Rate = Field(default=0.0, ge=0.0, lt=1.0)
MOST_BLOCKS = 1_000
MOST = (1 << 31) - 1  # every number has bounds: no mistake may overflow in another library
Size = Annotated[int, Field(ge=1, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
TokenId = Annotated[int, Field(ge=-MOST, le=MOST)]


class DropoutRates(Strict):
    """Dropout probabilities in training."""

    embedding: float = Rate  # of the vectors that enter the first block
    attention: float = Rate  # the fast kernel has none: above 0 takes the padded path
    mlp: float = Rate  # inside the MLP
    residual: float = Rate  # of what attention and MLP add


class RotaryScaling(Strict):
    """Slower rotary angles, for texts longer than those that the model was first trained on.

    linear: every pair of entries turns `factor` times slower. by_wavelength: only those that turn
    less than `low` times in `original_length` tokens; those that turn more than `high` times keep
    their speed, and between the two it changes gradually.
    """

    kind: Literal["none", "linear", "by_wavelength"] = "none"  # which angles turn slower
    factor: float = Field(default=1.0, ge=1, le=1e6)  # how many times slower
    original_length: Size | None = None  # by_wavelength only, as are the next two
    low: float | None = Field(default=None, gt=0, le=1e6)  # turns below which all slow down
    high: float | None = Field(default=None, gt=0, le=1e6)  # turns above which none does

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Each kind has its own numbers, and no others."""
        bands = [each is not None for each in (self.original_length, self.low, self.high)]
        if bands != [self.kind == "by_wavelength"] * 3:
            raise ValueError("original_length, low and high are for by_wavelength, which needs all")
        if self.kind == "none" and self.factor != 1:
            raise ValueError("a factor needs a kind: linear or by_wavelength")
        if self.low and self.high and self.high <= self.low:
            raise ValueError("high must be more than low")
        return self


class TokenIds(Strict):
    """The ids of special tokens that the model itself uses."""

    pad: TokenId | None = None
    start: TokenId | None = None  # the first token a decoder sees
    end: TokenId | None = None  # the token that ends a text


DECODER_SIZES = ("depth", "width", "heads", "key_heads", "head_width", "mlp_width", "window")


def _fill_head_width(filled: dict[str, Any], side: str = "") -> None:
    """The width of a head, if none is given: the heads of a layer share the layer's width."""
    width, heads = filled.get(f"{side}width"), filled.get(f"{side}heads")
    has_width = filled.get(f"{side}head_width") is not None
    if has_width or type(width) is not int or type(heads) is not int or heads < 1:
        return
    if width % heads:
        raise ValueError(
            f"{side}heads = {heads} does not divide {side}width = {width}: "
            f"write another number of heads, or a {side}head_width"
        )
    filled[f"{side}head_width"] = width // heads


def _fill_decoder(filled: dict[str, Any]) -> None:
    """The decoder's sizes that are not given: the encoder's, or what follows from those given."""
    sizes = {size: filled.get(size) for size in DECODER_SIZES}
    width, heads = (filled.get(f"decoder_{size}") for size in ("width", "heads"))
    if heads not in (None, sizes["heads"]):
        sizes |= {"key_heads": heads, "head_width": None}
    if width not in (None, sizes["width"]):
        sizes["head_width"] = None
    for size, usual in sizes.items():
        if filled.get(f"decoder_{size}") is None:
            filled[f"decoder_{size}"] = usual
    _fill_head_width(filled, "decoder_")


class ModelConfig(Named):
    family: Family

    # sizes
    vocab_size: Size
    width: Size  # C, the size of each token's vector
    depth: int = Field(ge=0, le=MOST_BLOCKS)  # 0: an encoder that is a table of vectors
    heads: Size  # H, attention heads of a block
    mlp_width: Size  # of the hidden layer of the MLP
    max_length: Size  # the longest text, in tokens
    shared_blocks: bool = False  # all layers have the same weights, those of one block
    head_width: Size | None = None  # D, of queries and keys; default: width / heads
    value_width: Size | None = None  # of values; default: head_width
    key_heads: Size | None = None  # grouped-query attention; default: heads
    # Divide scores by √ of this; default: head_width, or three times that if they are disentangled.
    score_width: Size | None = None

    # sizes of the decoder of a seq2seq model, where they are not the encoder's
    decoder_depth: int | None = Field(default=None, ge=1, le=MOST_BLOCKS)  # default: depth
    decoder_width: Size | None = None  # default: width
    decoder_heads: Size | None = None  # default: heads
    decoder_key_heads: Size | None = None  # default: key_heads, or all decoder_heads if given
    decoder_head_width: Size | None = None  # default: decoder_width / decoder_heads
    decoder_mlp_width: Size | None = None  # default: mlp_width
    decoder_window: Size | None = None  # default: window

    # embeddings and positions
    embedding_width: Size | None = None  # of the tables; if not width, a linear layer follows
    shared_embedding: bool = True  # encoder and decoder of a seq2seq model have one token table
    segments: Count = 0  # segment types (BERT has 2, sentence A and B)
    position: Position = "learned"  # how the model knows the order of tokens
    sinusoid: Sinusoid = "interleaved"  # the order of its sines and cosines
    position_offset: Count = 0  # the row of the table for position 0
    rotary_base: float = Field(default=10_000.0, gt=1, le=1e12)  # of rotary positions
    # Of layers with a window, without scaling; default: they turn as the others do.
    local_rotary_base: float | None = Field(default=None, gt=1, le=1e12)
    rotary_fraction: float = Field(default=1.0, gt=0, le=1)  # of a head: its first entries turn
    rotary_scaling: RotaryScaling = RotaryScaling()
    no_rotary_every: Count = 0  # layers n − 1, 2n − 1 … do not turn
    # Beside `position`, the scores depend on the distance to the key: each head adds a learned
    # number to them (bias), or compares queries and keys with vectors for distances (disentangled).
    relative: Literal["bias", "disentangled"] | None = None
    relative_buckets: Size = 32  # of relative positions: kinds of distance
    relative_distance: Size = 128  # farther ones share a bucket
    relative_by_layer: bool = False  # each layer has its own bias table
    embedding_scale: bool = False  # multiply token vectors by √width
    embedding_norm: bool = False  # a norm after the embeddings

    # layers
    norm: Literal["layer", "rms"] = "layer"  # LayerNorm or RMSNorm
    # Before attention and MLP (pre), after their sums with x (post), before these sums (branch), or
    # before attention and MLP and before the sums (sandwich).
    norm_place: Literal["pre", "post", "branch", "sandwich"] = "pre"
    norm_eps: float = Field(default=1e-5, gt=0, le=1)  # added to the variance
    norm_bias: bool = True  # LayerNorm adds a vector
    norm_plus_one: bool = False  # RMSNorm multiplies by 1 + its weight
    first_norm: bool = True  # pre-norm: False where the embeddings' norm serves the first layer
    final_norm: bool = True  # a norm after the last block
    attention_bias: bool = True  # queries, keys and values add a vector
    output_bias: bool | None = None  # of attention's output layer; default: attention_bias
    qk_norm: Literal["head", "all"] | None = None  # of queries and keys: each head, or all at once
    scaled: bool = True  # divide scores by √ score_width
    score_cap: float | None = Field(default=None, gt=0, le=1e9)  # c · tanh(score / c)
    window: Size | None = None  # the farthest distance that a token attends to
    global_every: Count = 0  # with a window: layers 0, n, 2n … have none
    global_last: bool = False  # layers n − 1, 2n − 1 … instead
    parallel: bool = False  # the MLP reads what attention reads, not its sum
    activation: Activation = "gelu"  # of the MLP
    gated: bool = False  # a gated MLP, such as SwiGLU
    mlp_bias: bool = True  # the linear layers of the MLP add a vector

    # output
    tied: bool = True  # the output layer shares the token table
    output_scale: bool = False  # divide vectors by √width before the output layer
    logit_cap: float | None = Field(default=None, gt=0, le=1e9)  # of tokens: c · tanh(logit / c)

    dropout: DropoutRates = DropoutRates()
    ids: TokenIds = TokenIds()
    init_std: float = Field(default=0.02, gt=0, le=1e3)  # of random initial weights

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """Fill in the sizes that follow from others, so that equal models have equal configs."""
        if not isinstance(fields, Mapping):
            return fields
        filled = dict(fields)
        _fill_head_width(filled)
        D, heads = filled.get("head_width"), filled.get("heads")
        terms = 3 if filled.get("relative") == "disentangled" else 1  # of a score
        scores = terms * D if type(D) is int else D
        for name, default in (("value_width", D), ("score_width", scores), ("key_heads", heads)):
            if filled.get(name) is None:
                filled[name] = default
        if filled.get("output_bias") is None:
            filled["output_bias"] = filled.get("attention_bias", True)
        if filled.get("embedding_width") is None:
            filled["embedding_width"] = filled.get("width")
        if filled.get("family") == "seq2seq":
            _fill_decoder(filled)
        return filled

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.heads % self.group_heads:
            raise ValueError(f"key_heads = {self.key_heads} does not divide heads = {self.heads}")
        for side, width in (("", self.width), ("decoder_", self.decoder_width or 0)):
            if self.position == "sinusoidal" and width % 2:
                raise ValueError(f"{side}width = {width} is odd: sinusoidal positions need it even")
        if self.position == "rotary" and (self.rotary_width % 2 or not self.rotary_width):
            raise ValueError(
                f"head_width = {self.head_width} is odd: rotary positions need it even"
                if self.rotary_fraction == 1
                else f"rotary_fraction = {self.rotary_fraction}: of a head of {self.head_width} "
                f"that is {self.rotary_width}: rotary positions need an even number"
            )
        if self.family == "seq2seq" and self.norm_place == "branch":
            raise ValueError("norm_place = 'branch': a seq2seq model has pre, post or sandwich")
        if self.parallel and (self.family == "seq2seq" or self.norm_place == "post"):
            raise ValueError("parallel = true: it needs an encoder or decoder, and no post-norm")
        if self.relative == "bias" and self.position in ("none", "relative"):
            raise ValueError(
                "relative = 'bias' is beside another position: write position = 'relative' "
                "without it"
            )
        if self.relative == "disentangled" and (
            self.family != "encoder" or self.position in ("relative", "rotary")
            or self.group_heads != self.heads
        ):  # fmt: skip
            raise ValueError(
                "relative = 'disentangled': it needs an encoder with as many key heads as heads, "
                "and no relative or rotary position"
            )
        if self.distances is not None and self.relative_buckets % 4:
            raise ValueError(
                f"relative_buckets = {self.relative_buckets}: write a multiple of 4, such as 32"
            )
        near = self.relative_buckets // (4 if self.family != "decoder" else 2)
        near += self.relative == "disentangled"
        if self.distances is not None and self.relative_distance <= near:
            raise ValueError(
                f"relative_distance = {self.relative_distance}: write more than {near}, the "
                "number of distances with a bucket of their own"
            )
        if self.relative_by_layer and self.position != "relative":
            raise ValueError("relative_by_layer = true: it is for position = 'relative'")
        if self.norm_plus_one and self.norm != "rms":
            raise ValueError("norm_plus_one = true: it is for norm = 'rms'")
        if self.depth == 0 and self.family != "encoder":
            raise ValueError(f"depth = 0: {with_article(self.family)} needs at least one block")
        differ = (self.global_every, self.no_rotary_every, not self.first_norm)
        if self.shared_blocks and (self.family != "encoder" or any(differ)):
            raise ValueError("shared_blocks = true: it needs an encoder whose layers are all alike")
        for size in DECODER_SIZES:
            if getattr(self, f"decoder_{size}") is not None and self.family != "seq2seq":
                kind = with_article(self.family)
                raise ValueError(f"decoder_{size} is for seq2seq: this is {kind}, use {size}")
        own = self.output_stack
        if own.table_width != self.table_width and self.shared_embedding:
            raise ValueError(
                f"decoder_width = {own.width}, and width = {self.width}: they cannot share a token "
                "table: write shared_embedding = false"
            )
        if own.heads % own.group_heads:
            raise ValueError(
                f"decoder_key_heads = {own.key_heads} does not divide decoder_heads = {own.heads}"
            )
        return self

    @property
    def output_stack(self) -> ModelConfig:
        """Of the stack that gives the output: the decoder of a seq2seq model has its own sizes."""
        if self.family != "seq2seq":
            return self
        sizes = {size: getattr(self, f"decoder_{size}") for size in DECODER_SIZES}
        pairs = {
            "value_width": "head_width", "score_width": "head_width", "embedding_width": "width",
        }  # fmt: skip
        sizes |= {
            name: sizes[usual]
            for name, usual in pairs.items()
            if getattr(self, name) == getattr(self, usual)
        }
        return self.model_copy(update=sizes)

    # The same sizes for a type checker: after _fill none of them is None.
    @property
    def query_width(self) -> int:
        return self.head_width or self.width // self.heads

    @property
    def rotary_width(self) -> int:
        """The entries of a head that turn."""
        return int(self.query_width * self.rotary_fraction)

    @property
    def own_blocks(self) -> int:
        """The blocks with weights of their own, in all stacks."""
        depth = self.depth + (self.decoder_depth or 0)
        return min(1, depth) if self.shared_blocks else depth

    @property
    def distances(self) -> Literal["bias", "disentangled"] | None:
        """How the scores depend on the distance from query to key, if they do."""
        return "bias" if self.position == "relative" else self.relative

    @property
    def positions(self) -> str:
        """How the model knows the order of tokens, in words."""
        kinds = (self.position, None if self.relative is None else "relative")
        return " and ".join(kind for kind in kinds if kind not in (None, "none")) or "none"

    @property
    def mixed_width(self) -> int:
        return self.value_width or self.query_width

    @property
    def table_width(self) -> int:
        return self.embedding_width or self.width

    @property
    def group_heads(self) -> int:
        return self.key_heads or self.heads


@dataclass(frozen=True)
class TaskTraits:
    """What a task predicts and which calls use it."""

    gives: str  # for model cards and lists of models
    calls: tuple[str, ...]  # methods of a loaded model
    family: Family | None = None  # of the backbone; None: any
    predicts: Literal["vectors", "masked_tokens", "next_token", "label", "token_labels", "span"] = (
        "vectors"
    )
    named_labels: bool = False  # its labels have names, which the data or config.json gives
    repeats_source: bool = False  # the decoder of a seq2seq model reads the source once more

    @property
    def predicts_tokens(self) -> bool:
        """Whether it predicts tokens of the vocabulary."""
        return self.predicts in ("masked_tokens", "next_token")


TRAITS: dict[TaskKind, TaskTraits] = {
    "features": TaskTraits("vectors for texts and tokens", ("embed",)),
    "masked_lm": TaskTraits("masked words", ("fill",), "encoder", "masked_tokens"),
    "masked_lm_nsp": TaskTraits(
        "masked words and whether one text follows another", ("fill", "follows"), "encoder",
        "masked_tokens",
    ),
    "next_sentence": TaskTraits(
        "whether one text follows another", ("follows",), "encoder", "label"
    ),
    "causal_lm": TaskTraits("the next word", ("generate",), "decoder", "next_token"),
    "translation": TaskTraits(
        "a text for a text, such as a translation", ("translate",), "seq2seq", "next_token"
    ),
    "classification": TaskTraits(
        "a label for a text", ("classify",), None, "label", named_labels=True, repeats_source=True
    ),
    "token_classification": TaskTraits(
        "a label for each token", ("tag",), None, "token_labels", named_labels=True
    ),
    "question_answering": TaskTraits(
        "the span of an answer in a text", ("answer",), None, "span", repeats_source=True
    ),
}  # fmt: skip


class TaskConfig(Named):
    """The head on a backbone, and its labels."""

    kind: TaskKind = "features"
    labels: tuple[str, ...] = ()
    pool: Pool = "first"  # the vector that represents a whole text
    pooler: Pooler | None = None  # a linear layer and this activation before the labels
    bias: bool = True  # in the last linear layer
    dropout: float = Rate
    several: bool = False  # classification: a text may have any number of labels

    @property
    def traits(self) -> TaskTraits:
        return TRAITS[self.kind]
