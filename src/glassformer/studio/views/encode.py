"""Attention weights as bytes: indices into a colour table.

A byte is round(255 · weight). In a long text most weights are too small for that: there a picture
has the power 2, and a byte is round(255 · √weight).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from glassformer.glass import rollout, weights
from glassformer.glass.stacks import StackName, attentions, place
from glassformer.glass.values import layer_values
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import WeightsView

THUMBNAIL = 48  # the most rows and columns of a head on the map


class EncodedPicture(NamedTuple):
    """Weights as bytes: weight = (byte / 255) ** power."""

    values: Tensor  # (T, S) uint8
    power: int = 1


def to_bytes(values: Tensor) -> Tensor:
    """Numbers from 0 to 1 → uint8."""
    return (values.float() * 255).round().clamp(0, 255).to(torch.uint8).cpu()


def significant(values: Tensor, digits: int = 6) -> Any:
    """As nested lists of numbers with this many digits: all that pages show, and few to send."""
    exact = widen(values).double().cpu()
    size = exact.abs().clamp(min=1e-30).log10().floor()
    scale = 10.0 ** (digits - 1 - size)
    return ((exact * scale).round() / scale).tolist()


def picture(weights: Tensor) -> EncodedPicture:
    if weights.shape[-1] <= THUMBNAIL:
        return EncodedPicture(to_bytes(weights))
    return EncodedPicture(to_bytes(weights.clamp(min=0).sqrt()), power=2)


def all_heads(run: RecordedRun, stack: StackName) -> Tensor:  # (L, H, r, c)
    """Every head of a stack; a long text is max-pooled to THUMBNAIL rows and columns."""
    layers = []
    for here in attentions(run.trace, stack):
        heads = widen(run.trace[f"{here}.weights"])  # (H, T, S)
        size = (min(heads.shape[-2], THUMBNAIL), min(heads.shape[-1], THUMBNAIL))
        layers.append(to_bytes(adaptive_max_pool2d(heads, size)))
    return torch.stack(layers)


def layer_means(run: RecordedRun, stack: StackName) -> Tensor:  # (L, r, c)
    """The mean over the heads of each layer; a long text is max-pooled as in `all_heads`."""
    layers = mean_heads(run, stack)
    size = (min(layers.shape[-2], THUMBNAIL), min(layers.shape[-1], THUMBNAIL))
    return to_bytes(adaptive_max_pool2d(layers, size))


def mean_heads(run: RecordedRun, stack: StackName) -> Tensor:  # (L, T, S)
    places = attentions(run.trace, stack)
    return torch.stack([widen(run.trace[f"{here}.weights"]).mean(0) for here in places])


def one_head(
    run: RecordedRun, stack: StackName, layer: int, head: int, view: WeightsView
) -> EncodedPicture:
    """One head; `mean` is over the heads of its layer, `rollout` over all layers up to it."""
    here = place(run.trace, stack, layer, head)
    heads = widen(run.trace[f"{here}.weights"])  # (H, T, S)
    if view == "value":
        norms = layer_values(run.loaded_model, run.trace, here)[head]
        return picture(norms / norms.sum(-1, keepdim=True).clamp(min=1e-30))
    if view == "rollout":
        return picture(rollout(weights(run.trace, stack)[: layer + 1])[-1])
    return picture(heads.mean(0) if view == "mean" else heads[head])
