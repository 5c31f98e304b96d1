"""The difference of two runs' attention weights, head by head, as bytes: 128 is no difference."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass.stacks import StackName, attentions, place
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import HeadChanges

ZERO, SCALE = 128, 127  # the byte of no difference; the byte of weight 1 is ZERO + SCALE


def to_bytes(values: Tensor) -> Tensor:
    """Numbers from −1 to 1 → uint8, 1 to 255."""
    return (ZERO + (values.float() * SCALE).round().clamp(-SCALE, SCALE)).to(torch.uint8).cpu()


def one_head(
    one: RecordedRun, two: RecordedRun, stack: StackName, layer: int, head: int
) -> Tensor:  # (T, S)
    place(one.trace, stack, layer, head)
    _common_layers(one, two, stack)
    return to_bytes(_difference(one, two, stack, layer)[head])


def changes(one: RecordedRun, two: RecordedRun, stack: StackName) -> HeadChanges:
    """The share of its attention that each head moves: half of Σ |b − a|, the mean over rows.

    0: the same attention; 1: entirely different tokens.
    """
    layers = range(_common_layers(one, two, stack))
    moved = [_difference(one, two, stack, layer).abs().sum(-1).mean(-1) / 2 for layer in layers]
    return HeadChanges(moved=torch.stack(moved).tolist())


def _common_layers(one: RecordedRun, two: RecordedRun, stack: StackName) -> int:
    """The number of layers; raises InputError if the two runs have different shapes."""
    shapes = []
    for run in (one, two):
        places = attentions(run.trace, stack)
        shapes.append((len(places), *run.trace[f"{places[0]}.weights"].shape))
    for name, first, second in zip(("layers", "heads", "rows", "columns"), *shapes, strict=True):
        if first != second:
            raise InputError(
                f"one has {first} {name}, the other {second}: "
                "a difference needs the same shape on both sides"
            )
    return int(shapes[0][0])


def _difference(
    one: RecordedRun, two: RecordedRun, stack: StackName, layer: int
) -> Tensor:  # (H, T, S)
    first, second = (
        widen(run.trace[f"{place(run.trace, stack, layer)}.weights"]).cpu() for run in (one, two)
    )
    return second - first
