"""JSON of the API: models, runs, and the pages Map, Head, Numbers, Translate, Compare."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, JsonValue, RootModel

from glassformer.glass.stacks import StackName
from glassformer.strict import Strict

WeightsView = Literal["raw", "value", "rollout", "mean"]
Side = Literal["encoder", "decoder"]
MAX_HEADS_OFF = 1_024
MAX_EDITS = 64  # swapped words, patched vectors, and units


class Sample(BaseModel):
    """An example text, the phenomenon that it shows, and how to find a head for it."""

    text: str
    second: str | None = None
    group: str = ""
    find: str = ""  # see views/find.py


class StackSize(BaseModel):
    name: StackName
    layers: int
    heads: int


class ModelRow(BaseModel):
    id: str
    name: str
    family: str
    kind: str
    calls: tuple[str, ...] = ()  # what it can be used for; a trace has none
    predicts_tokens: bool = False  # of the vocabulary: it has a logit lens
    pools: bool = False  # it has attention over words: the page Pooling shows it
    mask: str | None  # how a mask is written
    max_length: int  # in tokens: what can be recorded here
    parameters: int
    stacks: list[StackSize]
    samples: list[Sample]
    texts: list[str]  # to compare the words of
    note: str | None  # shown before the user writes a text
    steps: list[int] | None = None  # checkpoints of its training run, if it has one


class Models(BaseModel):
    models: list[ModelRow]


class RunRequest(Strict):
    """Run a model on a text."""

    model: str = Field(max_length=64)
    text: str
    second: str | None = None  # the second text of a pair, or the translation to read
    off: tuple[tuple[StackName, int, int], ...] = Field(default=(), max_length=MAX_HEADS_OFF)
    swaps: tuple[tuple[Side, int, str], ...] = Field(default=(), max_length=MAX_EDITS)
    patches: tuple[tuple[Side, int, int, int], ...] = Field(default=(), max_length=MAX_EDITS)
    # (side, layer, unit) of the MLPs' units that are 0
    units: tuple[tuple[Side, int, int], ...] = Field(default=(), max_length=MAX_EDITS)
    other: str | None = None  # the text that patched vectors come from
    step: int | None = None  # a checkpoint; None: the served model


class Token(BaseModel):
    text: str  # as it is read
    piece: str  # as the vocabulary spells it
    special: bool
    word: int | None  # the same for all pieces of one word


class Guess(BaseModel):
    """A word (or label) and its probability."""

    id: int  # in the vocabulary: two tokens can be read alike, such as b and Ġb
    text: str  # as it is read
    piece: str  # as the vocabulary spells it
    p: float


class TokenPrediction(BaseModel):
    """The likeliest words at one token, best first."""

    token: int
    top: list[Guess]


class AnswerSpan(BaseModel):
    start: int  # its first and last token
    end: int
    p: float  # among all spans


class Predictions(BaseModel):
    kind: Literal["masked", "next", "translation", "label", "span", "none"]
    at: list[TokenPrediction] = []
    spans: list[AnswerSpan] = []  # answers to a question, the likeliest first
    starts: list[float] = []  # the probability that the answer starts at each token
    ends: list[float] = []
    follows: float | None = None  # the probability that the second text follows the first
    text: str | None = None
    complete: bool = True  # False: a translation that was cut off at the length limit


class StackShape(StackSize):
    rows: int
    columns: int


class Tokens(BaseModel):
    queries: dict[StackName, list[Token]]


class RunRow(BaseModel):
    run: str
    stacks: list[StackShape]
    tokens: Tokens
    predictions: Predictions


class AttentionRow(BaseModel):
    """The attention of one query of one head."""

    weights: list[float]
    scores: list[float | None]  # None: masked; an empty list: not recorded


class AttentionRows(RootModel[list[AttentionRow]]):
    pass


class HeadChanges(BaseModel):
    moved: list[list[float]]  # (layers, heads): the share of attention that moved


class TrainingProgress(BaseModel):
    steps: list[int]  # of the checkpoints there are
    losses: list[tuple[float, float]]  # (step, loss), smoothed
    evaluations: list[tuple[float, float]]  # (step, validation loss)
    ended: bool
    shown: int | None  # the step of the served model, if known


class PythonCode(BaseModel):
    code: str
    folder: str | None = None  # of its training run, if it has one


class FoundHead(BaseModel):
    """The head that shows a phenomenon best, and the token where it does."""

    stack: StackName
    layer: int
    head: int
    query: int | None  # None: at every token
    value: float  # its score, weight or effect


class UploadedTrace(BaseModel):
    model: str  # the id of the trace in the list of models


class Measure(BaseModel):
    id: str
    title: str  # the field's term
    text: str  # the same in plain words
    paper: str


class Measures(BaseModel):
    names: list[Measure]
    values: dict[StackName, dict[str, list[list[float]]]]
    types: dict[StackName, list[list[str]]]


class NumbersStep(BaseModel):
    """One step of a computation: see views/formulas.py."""

    name: str
    title: str
    text: str
    formulas: list[JsonValue]
    shows: list[str]  # the vectors of this step; the last one is its result


class Numbers(BaseModel):
    """The computation of one query of one head, from the layer's input to its output."""

    token: str
    steps: list[NumbersStep]
    vectors: dict[str, list[float]]  # by their names in the formulas
    names: dict[str, str]  # what they are
    k: list[list[float]]  # a row for each key
    v: list[list[float]]
    scores: list[float]  # s: q · k
    scaled: list[float]  # u
    bias: list[float] | None  # b: of relative positions
    masked: list[float | None]  # w; None: −∞
    weights: list[float]  # a
    width: int  # d, of the head
    scale: float  # scores are divided by it


class MatrixProduct(BaseModel):
    """One row of a matrix times a vector: an entry of W x + b."""

    rows: int  # of the matrix
    row: int  # the chosen one
    x: list[float]
    y: list[float]  # W x + b, whole
    weights: list[float]  # the chosen row of W
    bias: float | None  # its entry of b
    key: int | None  # the token that x belongs to, if not the one that looks


class Surprisal(BaseModel):
    side: Side
    bits: list[float | None]  # of each token; None: it is not predicted


class JobProgress(BaseModel):
    unit: str = ""  # what is counted: layers, tokens
    done: int = 0
    of: int = 0  # 0: not known yet


class AlignmentView(BaseModel):
    source: list[str]
    target: list[str]
    soft: list[list[float]]  # (target words, source words)
    hard: list[tuple[int, int]]  # (target, source)
