"""Dropout whose random bits are a hash of the element's index and one seed."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.kernels.operators import operator

RANGE = 0x10000  # of the random numbers that are compared with the probability


def hashed_dropout(x: Tensor, p: float) -> Tensor:
    """Set each element to 0 with probability p and scale the others by 1 / (1 − p)."""
    seed = torch.randint(1 << 31, (1,), device=x.device, dtype=torch.int32)
    y: Tensor = _dropout(x, seed, p)
    return y


@operator("glassformer::dropout", None)  # so that the compiler of training finds it in a graph
def _dropout(x: Tensor, seed: Tensor, p: float) -> Tensor:
    bits = torch.arange(x.numel(), device=x.device, dtype=torch.int32).view(x.shape) ^ seed
    for factor, shift in ((-1640531535, 15), (-2048144789, 13), (-1028477387, 16)):
        bits = bits * factor
        bits = bits ^ ((bits >> shift) & ((1 << (32 - shift)) - 1))
    kept = (bits & (RANGE - 1)) >= round(p * RANGE)
    return torch.where(kept, x / (1 - p), 0.0)
