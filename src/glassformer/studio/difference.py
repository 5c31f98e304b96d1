"""Two runs, head by head: where one looks more, and where less. Bytes: 128 is no difference."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass.stacks import attentions, place
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Changes, StackName

NONE, MOST = 128, 127  # the byte of no difference, and how far one is from it at most


def to_bytes(values: Tensor) -> Tensor:
    """Numbers from −1 to 1 → uint8, 1 to 255."""
    return (NONE + (values.float() * MOST).round().clamp(-MOST, MOST)).to(torch.uint8).cpu()


def head(
    one: RecordedRun, two: RecordedRun, stack: StackName, layer: int, head: int
) -> Tensor:  # (T, S)
    place(one.trace, stack, layer, head)
    _layers(one, two, stack)
    return to_bytes(_layer(one, two, stack, layer)[head])


def changes(one: RecordedRun, two: RecordedRun, stack: StackName) -> Changes:
    """How much of its attention each head moves elsewhere: half of Σ |b − a|, the mean over rows.

    0: it looks where it looked; 1: it looks at other tokens altogether.
    """
    layers = range(_layers(one, two, stack))
    found = [_layer(one, two, stack, layer).abs().sum(-1).mean(-1) / 2 for layer in layers]
    return Changes(moved=torch.stack(found).tolist())


def _layers(one: RecordedRun, two: RecordedRun, stack: StackName) -> int:
    """How many there are, if the two can be compared."""
    shapes = []
    for run in (one, two):
        places = attentions(run.trace, stack)
        shapes.append((len(places), *run.trace[f"{places[0]}.weights"].shape))
    for name, first, second in zip(("layers", "heads", "rows", "columns"), *shapes, strict=True):
        if first != second:
            raise InputError(
                f"one has {first} {name}, the other {second}: "
                "a difference of each cell needs as many on both sides"
            )
    return int(shapes[0][0])


def _layer(one: RecordedRun, two: RecordedRun, stack: StackName, layer: int) -> Tensor:  # (H, T, S)
    first, second = (
        widen(run.trace[f"{place(run.trace, stack, layer)}.weights"]).cpu() for run in (one, two)
    )
    return second - first
