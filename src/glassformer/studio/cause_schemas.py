"""What the pages show of causes: parts of a logit, patches, and the page Causes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from glassformer.glass.stacks import StackName
from glassformer.interpret.inputs import Method
from glassformer.strict import Strict
from glassformer.studio.page_schemas import Sheets

CauseKind = Literal["input", "circuit", "steer", "probe", "lens"]


class LogitPart(BaseModel):
    """What one part of the model adds to the difference of two logits."""

    name: str
    value: float
    stack: StackName | None  # of a head, to open it
    layer: int | None
    head: int | None


class LogitParts(BaseModel):
    """logit(answer) − logit(other) of one token as a sum, the largest parts first."""

    answer: str
    other: str
    difference: float
    parts: list[LogitPart]


class PatchSweep(BaseModel):
    """The share of logit(answer) − logit(other) that each patch brings back; (layers, tokens)."""

    answer: str
    other: str
    clean: float  # in the text that the vectors come from
    corrupted: float
    recovered: list[list[float]]


class CauseRequest(Strict):
    """Explain the prediction of a run at one token, or what its model knows."""

    run: str = Field(max_length=64)
    kind: CauseKind
    token: int = 0
    method: Method = "integrated_gradients"  # input
    other: str | None = Field(default=None, max_length=64)  # circuit: the run of the corrupted text
    edges: int = Field(default=20, ge=1, le=1_000)  # circuit
    towards: str = ""  # steer: texts, one per line
    away: str = ""  # steer
    layer: int = Field(default=0, ge=0)  # steer
    strength: float = Field(default=1.0, ge=0, le=1_000)  # steer
    labelled: str = ""  # probe: a word and its label per line
    texts: str = ""  # lens: one per line; empty: the model's examples


class CauseCurve(BaseModel):
    name: str
    values: list[float]


class CauseNode(BaseModel):
    """A part of a circuit; it is drawn above those that it reads."""

    name: str
    x: float  # from 0 to 1
    y: float  # 1 is the embedding, 0 the logits


class CauseEdge(BaseModel):
    writer: int  # the number of a node
    reader: int
    effect: float  # of corrupting it, on the difference of two logits


class Causes(Sheets):
    """Tables, a curve over places if there is one, and the graph of a circuit."""

    conclusion: str
    places: list[str] = Field(default_factory=list)  # of the curves
    curves: list[CauseCurve] = Field(default_factory=list)
    nodes: list[CauseNode] = Field(default_factory=list)
    edges: list[CauseEdge] = Field(default_factory=list)
