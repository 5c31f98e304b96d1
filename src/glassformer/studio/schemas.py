"""What goes over the wire."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, RootModel

from glassformer.config import Strict

StackName = Literal["encoder", "decoder", "cross"]
View = Literal["raw", "value", "rollout", "mean"]
Side = Literal["encoder", "decoder"]
MOST_OFF = 1_024  # heads
MOST_CHANGES = 64  # words, and vectors


class Sample(BaseModel):
    text: str
    second: str | None = None


class StackSize(BaseModel):
    name: StackName
    layers: int
    heads: int


class ModelRow(BaseModel):
    id: str
    name: str
    family: str
    kind: str
    mask: str | None  # how a blank is written
    max_length: int  # tokens, of what can be recorded here
    parameters: int
    stacks: list[StackSize]
    samples: list[Sample]
    note: str | None  # what the user has to know before writing
    steps: list[int] | None = None  # checkpoints of its training, where that is here


class Models(BaseModel):
    models: list[ModelRow]


class Ask(Strict):
    """Run a model on a text."""

    model: str = Field(max_length=64)
    text: str
    second: str | None = None  # B of a pair, or what a translator is to have written
    off: tuple[tuple[StackName, int, int], ...] = Field(default=(), max_length=MOST_OFF)
    swaps: tuple[tuple[Side, int, str], ...] = Field(default=(), max_length=MOST_CHANGES)
    patches: tuple[tuple[Side, int, int, int], ...] = Field(default=(), max_length=MOST_CHANGES)
    other: str | None = None  # the text that patches come from
    step: int | None = None  # a checkpoint; none is the model itself


class Token(BaseModel):
    text: str  # for people
    piece: str  # as the vocabulary has it
    special: bool
    word: int | None  # pieces of one word have the same number


class Guess(BaseModel):
    text: str
    p: float


class At(BaseModel):
    token: int
    top: list[Guess]


class Says(BaseModel):
    kind: Literal["masked", "next", "translation", "label", "none"]
    at: list[At] = []
    text: str | None = None
    complete: bool = True  # False: a translation that went on, and was stopped


class StackShape(StackSize):
    rows: int
    columns: int


class Tokens(BaseModel):
    queries: dict[StackName, list[Token]]


class RunRow(BaseModel):
    run: str
    stacks: list[StackShape]
    tokens: Tokens
    says: Says


class NumberRow(BaseModel):
    weights: list[float]
    scores: list[float | None]  # None: it may not look there; empty: not recorded


class NumberRows(RootModel[list[NumberRow]]):
    pass


class Changes(BaseModel):
    moved: list[list[float]]  # a share for each head


class Training(BaseModel):
    steps: list[int]  # of the checkpoints that are kept
    losses: list[tuple[float, float]]  # (step, loss), smoothed
    evaluations: list[tuple[float, float]]  # of what was held out
    ended: bool
    shown: int | None  # the step that the model itself is of, where that is known


class Python(BaseModel):
    code: str
    folder: str | None = None  # of its training, where that is here


class Brought(BaseModel):
    model: str  # under this id the trace stands among the models


class Measure(BaseModel):
    id: str
    title: str
    paper: str


class Measures(BaseModel):
    names: list[Measure]
    values: dict[StackName, dict[str, list[list[float]]]]
    types: dict[StackName, list[list[str]]]


class Vector(BaseModel):
    """The first entries of a long one."""

    values: list[float]
    length: int


class VectorRows(BaseModel):
    values: list[list[float]]
    length: int  # of each


class Numbers(BaseModel):
    """One query of one head, from the token to the end of its block."""

    token: str
    embedding: Vector
    segment: Vector | None
    position: Vector | None  # none is added where positions turn q and k, or are in the bias
    before: Vector  # what comes into this part of the block
    x: Vector  # what q is made from: `before`, or (pre-norm) its norm
    q: Vector
    k: VectorRows  # a row for each key
    v: VectorRows
    scores: list[float]  # q · k
    scaled: list[float]  # q · k / scale
    bias: list[float] | None  # relative positions: added
    masked: list[float | None]  # None: −∞
    weights: list[float]
    mixed: Vector  # Σ weights · v
    out: Vector  # W_O of all heads' mixed
    residual: Vector  # before + out
    norm: Vector  # what the next part reads
    mlp: Vector
    block: Vector  # what leaves the block
    scale: float
    formulas: dict[str, str]


class AlignmentView(BaseModel):
    source: list[str]
    target: list[str]
    soft: list[list[float]]  # (target words, source words)
    hard: list[tuple[int, int]]  # (target, source)
