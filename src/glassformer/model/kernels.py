"""Which attention kernels this machine has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glassformer.model.sequences import Sequences

varlen_attn: Callable[..., Any] | None
try:
    from torch.nn.attention import varlen as _varlen
except ImportError:  # a build of torch without it
    varlen_attn = None
else:
    varlen_attn = _varlen.varlen_attn

_GROUPED = varlen_attn is not None and "enable_gqa" in inspect.signature(varlen_attn).parameters


def fits_varlen(q: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> bool:
    """CUDA in half precision, heads of one even width, no bias, no dropout."""
    return (
        varlen_attn is not None
        and q.is_cuda
        and q.dtype in (torch.bfloat16, torch.float16)
        and q.shape[-1] == v.shape[-1]
        and q.shape[-1] % 8 == 0
        and q.shape[-1] <= 256
        and bias is None
        and dropout == 0.0
    )


def varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequences,
    keys: Sequences,
    causal: bool,
    window: int | None,
    scale: float,
) -> Tensor:
    """The flash kernel for ragged rows."""
    assert varlen_attn is not None  # noqa: S101 - fits_varlen has asked
    reach = -1 if window is None else window
    options = {}
    if k.shape[1] != q.shape[1]:
        if _GROUPED:
            options["enable_gqa"] = True
        else:
            group = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    mixed: Tensor = varlen_attn(
        q, k, v, queries.offsets, keys.offsets, queries.longest, keys.longest,
        scale=scale, window_size=(reach, 0 if causal else reach), **options,
    )  # fmt: skip
    return mixed


def describe(device: torch.device) -> dict[str, str]:
    """What `attend` uses on this device, for `glassformer doctor`."""
    if device.type == "cuda" and varlen_attn is not None:
        grouped = "grouped heads in the kernel" if _GROUPED else "grouped heads repeated"
        half = f"torch varlen_attn ({grouped})"
    else:
        half = "scaled_dot_product_attention"
    ragged = "one text at a time" if device.type == "cpu" else "padded, with a mask"
    return {
        "half precision, ragged texts": half if device.type == "cuda" else f"{half}, {ragged}",
        "float32, ragged texts": f"scaled_dot_product_attention, {ragged}",
        "one text, or even lengths": "scaled_dot_product_attention, no mask",
        "with a recorder": "open arithmetic",
    }
