"""GELU, by torch or by our kernel for large products."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

# Rows: fewer are fused with their neighbours by a compiler; a kernel cannot have more blocks.
FEWEST, MOST = 1024, 1 << 20


def gelu(x: Tensor, *, tanh: bool = False) -> Tensor:
    """x · Φ(x), where Φ is the normal distribution; with `tanh`, its usual approximation."""
    if torch.compiler.is_compiling() and is_large(x):
        from glassformer.kernels.fused_gelu import fused_gelu

        return fused_gelu(x, tanh=tanh)
    return F.gelu(x, approximate="tanh" if tanh else "none")


def is_large(x: Tensor) -> bool:
    """Whether this is a matrix for our kernels: in half precision on a GPU, with many rows."""
    half = x.dtype in (torch.bfloat16, torch.float16)
    return x.is_cuda and half and x.dim() == 2 and FEWEST <= len(x) < MOST
