"""Value-weighted attention: the weight times the length of what it carries.

A head adds Σ_j a_ij W_O v_j to token i. A large weight on a token whose W_O v_j is near zero
changes nothing. Kobayashi et al. 2020, "Attention is not only a weight".

W_O belongs to the model, so these functions take the model beside the trace.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.recorder import modules
from glassformer.glass.stacks import attentions, place
from glassformer.model import Attention
from glassformer.precision import widen
from glassformer.tasks.quantize import check_exact


def value_weighted(model: nn.Module, trace: RecordedTensors, stack: str) -> Tensor:  # (L, H, T, S)
    """‖a_ij · W_O v_j‖ of each head: the length of what token j sends to token i."""
    return torch.stack([layer_values(model, trace, here) for here in attentions(trace, stack)])


def layer_values(model: nn.Module, trace: RecordedTensors, here: str) -> Tensor:  # (H, T, S)
    """The same for one layer, by the name of its attention in the trace."""
    lengths: Tensor = _sent(model, trace, here).norm(dim=-1)  # (H, S)
    return widen(trace[f"{here}.weights"]).abs() * lengths[:, None]


def value_parts(
    model: nn.Module, trace: RecordedTensors, stack: str, layer: int, query: int
) -> Tensor:  # (H, S, C)
    """a_ij · W_O v_j: what each token sends to token i = `query` through each head.

    Summed over heads and tokens, and with the bias of W_O, it is row i of the layer's "….out".
    """
    here = place(trace, stack, layer)
    weights = widen(trace[f"{here}.weights"])  # (H, T, S)
    if not 0 <= query < weights.shape[1]:
        raise ConfigError(f"query = {query}: the text has tokens 0 to {weights.shape[1] - 1}")
    return weights[:, query, :, None] * _sent(model, trace, here)


def _sent(model: nn.Module, trace: RecordedTensors, here: str) -> Tensor:  # (H, S, C)
    """W_O v_j: each value through its head's columns of the output matrix."""
    attention = modules(model).get(here)
    if not isinstance(attention, Attention):
        raise InputError(f"this trace is of another model: this one has no {here!r}")
    check_exact(attention, here)
    v = widen(trace[f"{here}.v"])  # (S, G, Dv)
    v = v.repeat_interleave(attention.heads // v.shape[1], 1)  # (S, H, Dv)
    out = attention.output.weight.detach().to(v).unflatten(1, (attention.heads, -1))  # (C, H, Dv)
    if out.shape[-1] != v.shape[-1]:
        raise InputError(f"this trace is of another model: {here!r} has other sizes")
    return torch.einsum("shd,chd->hsc", v, out)
