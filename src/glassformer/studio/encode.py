"""Weights as bytes: round(255 · weight), what a colour table is indexed by."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from glassformer.glass import rollout, weights
from glassformer.glass.stacks import attentions, place
from glassformer.glass.values import layer_values
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import StackName, View

SMALL = 48  # the most rows and columns of a head on the map


def to_bytes(values: Tensor) -> Tensor:
    """Numbers from 0 to 1 → uint8."""
    return (values.float() * 255).round().clamp(0, 255).to(torch.uint8).cpu()


def small(run: RecordedRun, stack: StackName) -> Tensor:  # (L, H, r, c)
    """Every head of a stack; of a long text each cell shows the largest weight it covers."""
    layers = []
    for here in attentions(run.trace, stack):
        head = widen(run.trace[f"{here}.weights"])  # (H, T, S)
        sides = (min(head.shape[-2], SMALL), min(head.shape[-1], SMALL))
        layers.append(to_bytes(adaptive_max_pool2d(head, sides)))
    return torch.stack(layers)


def head(run: RecordedRun, stack: StackName, layer: int, head: int, view: View) -> Tensor:  # (T, S)
    """One head; `mean` is over the heads of its layer, `rollout` over all layers up to it."""
    here = place(run.trace, stack, layer, head)
    found = widen(run.trace[f"{here}.weights"])  # (H, T, S)
    if view == "value":
        sent = layer_values(run.whole, run.trace, here)[head]
        found = sent / sent.sum(-1, keepdim=True).clamp(min=1e-30)
    elif view == "rollout":
        found = rollout(weights(run.trace, stack)[: layer + 1])[-1]
    elif view == "mean":
        found = found.mean(0)
    else:
        found = found[head]
    return to_bytes(found)
