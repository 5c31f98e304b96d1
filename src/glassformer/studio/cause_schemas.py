"""What the pages show of causes: parts of a logit, and patches."""

from __future__ import annotations

from pydantic import BaseModel

from glassformer.glass.stacks import StackName


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
