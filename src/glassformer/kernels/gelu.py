"""GELU, by torch or by our kernel for large products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

MANY = 1024  # rows: fewer than this a compiler fuses with their neighbours


def gelu(x: Tensor, *, tanh: bool = False) -> Tensor:
    """x · Φ(x), where Φ is the normal distribution; with `tanh`, its usual approximation."""
    half = x.dtype in (torch.bfloat16, torch.float16)
    if torch.compiler.is_compiling() and x.is_cuda and half and x.dim() == 2 and len(x) >= MANY:
        from glassformer.kernels.fused_gelu import fused_gelu

        return fused_gelu(x, tanh=tanh)
    return F.gelu(x, approximate="tanh" if tanh else "none")
