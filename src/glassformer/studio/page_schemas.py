"""JSON of the API: all other pages, lessons and glossary."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from glassformer.config import Position
from glassformer.generate.generation import Stopped
from glassformer.glass.stacks import StackName
from glassformer.strict import Strict
from glassformer.studio.schemas import Guess, Predictions, Side, Token

BlockPart = Literal["embedding", "attention", "cross", "block", "norm"]
MAX_NEW_TOKENS = 64
MAX_BEAMS = 8
MAX_TEXTS = 24
MIN_TEMPERATURE = 0.01  # logits divided by less overflow


class GenerationRequest(Strict):
    """Continue a text, and record every step."""

    model: str = Field(max_length=64)
    step: int | None = None  # a checkpoint; None: the served model
    text: str
    # (step, token) of each token that the user chose.
    taken: tuple[tuple[int, int], ...] = Field(default=(), max_length=MAX_NEW_TOKENS)
    max_new_tokens: int = Field(default=12, ge=1, le=MAX_NEW_TOKENS)
    do_sample: bool = False
    temperature: float | None = Field(default=None, ge=MIN_TEMPERATURE)
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    num_beams: int = Field(default=1, ge=1, le=MAX_BEAMS)


class SamplingRule(BaseModel):
    """A setting that changes the logits."""

    name: str  # temperature, top-k, …
    value: float | None
    left: int  # how many tokens are still possible


class CandidateRow(BaseModel):
    id: int
    text: str
    p: list[float]  # the model's probability, then after each rule
    cut: int | None  # the rule that excluded it


class CacheRow(BaseModel):
    """The KV cache when a token is chosen, and what the last forward pass wrote and read."""

    kept: int  # tokens of all beams
    written: int
    read: int
    source: int  # tokens of the source: written once, read in every step
    bytes: int  # in use


class GenerationStep(BaseModel):
    token: int
    logprob: float  # before any sampling rule
    chosen: bool  # by the user
    rules: list[SamplingRule]
    top: list[CandidateRow]
    cache: CacheRow


class CacheSize(BaseModel):
    """Memory of the KV cache: a token takes layers × heads × (key + value) × item bytes."""

    layers: int
    heads: int
    key: int
    value: int
    item: int
    token: int  # bytes of one token
    capacity: int  # tokens of each text
    source: int
    reserved: int  # bytes


class BeamNode(BaseModel):
    """A candidate of a beam search."""

    turn: int
    parent: int | None  # the node that it continues
    text: str
    token: int
    sum: float  # of the log-probabilities up to here
    logprob: float
    state: Literal["kept", "done", "dropped"]
    score: float | None  # of a finished text, with its length penalty


class BeamResult(BaseModel):
    """A finished text of a beam search."""

    ids: list[int]
    text: str
    score: float
    stopped: Stopped


class BeamSearch(BaseModel):
    nodes: list[BeamNode]
    best: list[BeamResult]
    caches: list[CacheRow]  # one for each step
    penalty: float  # score = sum / length ** penalty


class GenerationRow(BaseModel):
    generation: str  # its id
    prompt: list[Token]  # of the decoder
    source: list[Token]  # of a translation
    generated: list[Token]
    text: str
    stopped: Stopped
    steps: list[GenerationStep]
    room: CacheSize
    beams: BeamSearch | None


class StepAttention(BaseModel):
    """The attention weights of each step over the tokens before it."""

    weights: list[list[float]]


class LayerPoint(BaseModel):
    """A point of the residual stream."""

    name: str
    layer: int | None  # None: before the first block
    part: BlockPart


class LensCurves(BaseModel):
    """The logit lens at every point and token; p and kl are (points, tokens)."""

    points: list[LayerPoint]
    words: list[str]  # the final prediction of each token
    p: list[list[float]]  # the probability of that word
    kl: list[list[float]]  # KL divergence from the final output, in bits


class LensPredictions(BaseModel):
    """The likeliest words of one token at each point."""

    tops: list[list[Guess]]


class WordTrajectory(BaseModel):
    """A token's vector through the layers; every list has one number for each point."""

    points: list[LayerPoint]
    norm: list[float]
    to_start: list[float]
    to_end: list[float]
    between: list[float] | None  # cosine with a token of another text


class StackNorms(BaseModel):
    """The residual stream of one stack: a row for each point, a number for each token."""

    name: Side
    points: list[LayerPoint]
    norm: list[list[float]]
    added: list[list[float] | None]  # the norm of what this part adds; None: embedding, unrecorded


class Network(BaseModel):
    """A whole model on one text."""

    stacks: list[StackNorms]


class NetworkGuesses(BaseModel):
    """The logit lens of every token, after the embedding and after each layer."""

    points: list[LayerPoint]
    guesses: list[list[Guess]]  # (points, tokens): the likeliest word


class LayerAttention(BaseModel):
    """What one token attends to in each layer, as the mean over the heads."""

    weights: list[list[float]]  # (layers, keys)


PositionKind = Position | Literal["disentangled"]


class PositionTable(BaseModel):
    """How a model represents positions: a row for each position."""

    kind: PositionKind
    first: int  # the first row: position 0, or a distance
    columns: list[str]
    values: list[list[float]]
    similar: list[list[float]]  # cosine of each row with each; empty for relative positions
    buckets: list[int]  # of each distance; only for distances


class ShuffleRequest(Strict):
    """Run the words of a run in another order."""

    run: str = Field(max_length=64)
    seed: int = Field(ge=0, lt=1 << 31)
    positions: bool = True  # False: without position information


class ShuffleRow(BaseModel):
    shuffle: str
    order: list[int]  # the token at each position
    after: list[Token]  # the text in its new order
    predictions: Predictions  # before; tokens are numbered as in the run
    predictions_after: Predictions
    moved: dict[StackName, float]  # the share of attention that moved


class SpaceRequest(Strict):
    """The words of some texts as points."""

    model: str = Field(max_length=64)
    step: int | None = None  # a checkpoint; None: the served model
    texts: tuple[str, ...] = Field(min_length=1, max_length=MAX_TEXTS)


class SpaceWord(BaseModel):
    text: int  # which of the texts
    word: str
    tokens: list[int]  # their numbers in the text


class WordSpace(BaseModel):
    """Words in two dimensions, at each point of the residual stream."""

    space: str  # its id
    side: Side
    points: list[LayerPoint]
    words: list[SpaceWord]
    xy: list[list[tuple[float, float]]]  # (points, words)
    shown: list[float]  # the share of each point's variance that two dimensions show


class SpaceWordView(BaseModel):
    """One word, and the same word elsewhere in the texts in a plane of its own."""

    cosines: list[list[float]]  # (points, words): with every word
    same: list[int]  # the words that are written like it, itself among them
    xy: list[list[tuple[float, float]]]  # (points, same)
    shown: list[float]


class UnitActivation(BaseModel):
    unit: int
    value: float


class Neurons(BaseModel):
    """The units of one MLP that are strongest at each token."""

    width: int  # how many units there are
    gated: bool
    strongest: list[list[UnitActivation]]  # (tokens, some): by their absolute value


class Neuron(BaseModel):
    values: list[float]  # of one unit at each token


class SentenceSpace(BaseModel):
    """The texts in two dimensions, by the vectors that `embed` returns."""

    xy: list[tuple[float, float]]
    shown: float
    cosines: list[list[float]]
    pooling: list[str]


class Sheet(BaseModel):
    """A table with a title and a few sentences. A row is its name and its cells; None is an empty
    cell, such as a masked one."""

    title: str
    text: str = ""
    columns: list[str] = []
    rows: list[list[str | float | None]] = []
    shares: bool = False  # its numbers are from 0 to 1, and coloured by it


class Sheets(BaseModel):
    sheets: list[Sheet]
    python: str  # code that computes them


class ToySheets(Sheets):
    words: list[list[str]]  # the texts of the toy
    conclusion: str  # words or position?


class PoolingRequest(Strict):
    """Weigh the words and sentences of a document."""

    model: str | None = Field(
        default=None, max_length=64
    )  # None: the variants that are trained here
    step: int | None = None  # a checkpoint; None: the served model
    text: str
    vectors: str = Field(default="", max_length=64)  # other word vectors; empty: its own
    word: int = Field(default=0, ge=0)  # the word whose score is computed in the open


class PooledWord(BaseModel):
    text: str
    scores: list[float]  # r, one for each head
    weights: list[float]  # a


class PooledSentence(BaseModel):
    score: float | None  # None: attention over words alone
    weight: float
    words: list[PooledWord]


class PooledDocument(BaseModel):
    """A document in one variant of pooling."""

    name: str
    formula: str
    labels: list[Guess]
    summary: str  # the label, and what share the chosen word has
    sentences: list[PooledSentence]
    walk: list[Sheet]  # from x to r, a and the mixture, for the chosen word


class Pooling(BaseModel):
    variants: list[PooledDocument]
    vectors: list[tuple[str, str]]  # (id, name): what can be used in place of its own
    python: str  # code that computes the weights


class LessonStep(Strict):
    at: str  # an address of the studio
    text: str
    ask: str
    check: list[str] = Field(min_length=1)  # a function of web/checks.js and its arguments


class Lesson(Strict):
    id: str
    title: str
    lecture: str
    steps: list[LessonStep] = Field(min_length=1)


class Lessons(Strict):
    lessons: list[Lesson]


class Term(Strict):
    name: str
    also: list[str] = Field(default_factory=list)  # other forms that stand on the pages
    text: str


class Glossary(Strict):
    terms: list[Term]
