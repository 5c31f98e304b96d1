"""GELU and its derivative for compiled models in half precision.

A compiler fuses GELU with its neighbours, but erf and tanh are long programs, and on a GPU their
arithmetic takes longer than reading the numbers. Here both need one exponential and one division,
and are as exact as half precision can represent.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def gelu(x: Tensor, *, tanh: bool = False) -> Tensor:
    """x · Φ(x), where Φ is the normal distribution; with `tanh`, its usual approximation."""
    half = x.dtype in (torch.bfloat16, torch.float16)
    if torch.compiler.is_compiling() and x.is_cuda and half:
        y: Tensor = Gelu.apply(x, tanh)  # type: ignore[no-untyped-call]
        return y
    return F.gelu(x, approximate="tanh" if tanh else "none")


class Gelu(torch.autograd.Function):
    """x · share(x); its derivative is share(x) + x · slope(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tanh: bool) -> Tensor:
        ctx.save_for_backward(x)
        ctx.tanh = tanh
        return (x.float() * share_and_slope(x.float(), tanh)[0]).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (saved,) = ctx.saved_tensors
        x = saved.float()
        share, slope = share_and_slope(x, ctx.tanh)
        return (grad.float() * (share + x * slope)).to(saved.dtype), None


def share_and_slope(x: Tensor, tanh: bool) -> tuple[Tensor, Tensor]:
    """Φ(x), or its approximation with `tanh`, and the derivative."""
    if tanh:  # ½ (1 + tanh u) = 1 / (1 + e^(−2u))
        twice = math.sqrt(8 / math.pi)
        share = 1 / (1 + torch.exp(-twice * (x + 0.044715 * x * x * x)))
        return share, share * (1 - share) * twice * (1 + 0.134145 * x * x)
    # Abramowitz and Stegun 7.1.26, with an error below 1e-7; it shares the density's exponential.
    density = torch.exp(-0.5 * x * x)
    t = 1 / (1 + 0.23164190 * x.abs())
    tail = torch.full_like(t, 0.5307027145)
    for coefficient in (-0.7265760135, 0.7107068705, -0.142248368, 0.127414796):
        tail = tail * t + coefficient
    tail = tail * t * density
    return torch.where(x < 0, tail, 1 - tail), density / math.sqrt(2 * math.pi)
