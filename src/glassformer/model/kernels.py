"""The attention kernels, and which of them this machine has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from glassformer.model.sequences import Sequences

# Since then the kernel accepts fewer key heads than query heads.
GROUPED = torch.__version__ >= "2.12"
# For full rectangles cuDNN's kernel trains fastest, but torch would choose it last.
PREFERRED = [
    SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH,
]  # fmt: skip
HALF = (torch.bfloat16, torch.float16)


def fits_varlen(q: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> bool:
    """CUDA in half precision, heads of one even width, no bias, no dropout."""
    D, Dv = q.shape[-1], v.shape[-1]
    fits = q.is_cuda and q.dtype in HALF and Dv == D and D % 8 == 0 and D <= 256
    return fits and bias is None and dropout == 0.0


def slow_backward(q: Tensor) -> bool:
    """On a CPU the kernel's backward pass takes up to ten times longer in half precision."""
    return q.dtype in HALF and q.device.type == "cpu" and q.requires_grad


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
    from torch.nn.attention.varlen import varlen_attn  # takes two seconds, for a GPU only

    reach = -1 if window is None else window
    options: dict[str, Any] = {"scale": scale, "window_size": (reach, 0 if causal else reach)}
    if k.shape[1] != q.shape[1]:
        if GROUPED:
            options["enable_gqa"] = True
        else:
            group = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    rows = (queries.offsets, keys.offsets, queries.longest, keys.longest)
    mixed = varlen_attn(q, k, v, *rows, **options)
    assert isinstance(mixed, Tensor)  # noqa: S101 - a tuple only with other options
    return mixed
