"""GELU of a large product and its gradient, written in Triton.

    y = GELU(x + bias)        dx = dy · GELU'(x + bias)        dbias = the sum of dx over the rows

The backward pass reads x again. A compiler would keep the derivative for it, in float32: twice as
many bytes. Each block of rows adds up its part of the bias's gradient while it has dx, so that
nothing is read again for it, and the same input gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from glassformer.kernels.operators import operator

ROWS, COLUMNS, WARPS = 16, 128, 4  # of a tile: the fastest on one H200
TILES = 32  # of a block of rows in the backward pass

LOG2E = tl.constexpr(1.4426950408889634)  # 2^x is an instruction, e^x is not


def fused_gelu(x: Tensor, *, tanh: bool) -> Tensor:
    """GELU of (N, C), or its usual approximation with `tanh`."""
    y: Tensor = _gelu(x, None, tanh)
    return y


def _fake(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


def _fake_grad(grad: Tensor, x: Tensor, bias: Tensor | None, _: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), _sums(x, bias)


@operator("glassformer::gelu", _fake)
def _gelu(x: Tensor, bias: Tensor | None, tanh: bool) -> Tensor:
    """GELU(x + bias)."""
    x = x.contiguous()
    y = x.new_empty(x.shape)
    _launch(_forward, triton.cdiv(x.shape[0], ROWS), (x, bias, y), tanh)
    return y


@operator("glassformer::gelu_grad", _fake_grad)
def _gelu_grad(grad: Tensor, x: Tensor, bias: Tensor | None, tanh: bool) -> tuple[Tensor, Tensor]:
    """The gradient of x, and its sums over blocks of rows if there is a bias."""
    grad, x = grad.contiguous(), x.contiguous()
    dx, sums = x.new_empty(x.shape), _sums(x, bias)
    blocks = triton.cdiv(x.shape[0], ROWS * TILES)
    _launch(_backward, blocks, (x, bias, grad, dx, sums), tanh, TILES=TILES)
    return dx, sums


def _sums(x: Tensor, bias: Tensor | None) -> Tensor:
    blocks = 0 if bias is None else -(-x.shape[0] // (ROWS * TILES))
    return x.new_empty((blocks, x.shape[1]), dtype=torch.float32)


def _launch(
    kernel: Any, blocks: int, tensors: tuple[Tensor | None, ...], tanh: bool, **meta: int
) -> None:
    x, bias, *_ = tensors
    assert x is not None  # noqa: S101
    (N, C), biased = x.shape, bias is not None
    tensors = tuple(x if each is None else each for each in tensors)  # not read
    if N and C:
        with torch.cuda.device(x.device):
            kernel[triton.cdiv(C, COLUMNS), blocks](
                *tensors, N, C=C, BIASED=biased, TANH=tanh, R=ROWS, BN=COLUMNS,
                num_warps=WARPS, **meta,
            )  # fmt: skip


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, bias, ctx.tanh = inputs
    ctx.save_for_backward(x, bias)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, bias = ctx.saved_tensors
    dx, sums = _gelu_grad(grad, x, bias, ctx.tanh)
    return dx, None if bias is None else sums.sum(0).to(bias.dtype), None


torch.library.register_autograd("glassformer::gelu", _differentiate, setup_context=_save)


@triton.jit
def _share_and_slope(x, TANH: tl.constexpr):
    """GELU(x) = x · share(x): the normal distribution, or its approximation; and its derivative."""
    if TANH:  # ½ (1 + tanh u) = 1 / (1 + e^(−2u))
        twice = x * (1.5957691216057308 + 0.07135481282 * x * x)
        share = libdevice.fast_dividef(1.0, 1.0 + tl.exp2(-LOG2E * twice))
        slope = share * (1.0 - share) * (1.5957691216057308 + 0.21406443846 * x * x)
    else:  # Abramowitz and Stegun 7.1.26: an error below 1e-7, and it shares the exponential
        density = tl.exp2((-0.5 * LOG2E) * x * x)
        t = libdevice.fast_dividef(1.0, 1.0 + 0.23164190 * tl.abs(x))
        tail = (0.5307027145 * t - 0.7265760135) * t + 0.7107068705
        tail = ((tail * t - 0.142248368) * t + 0.127414796) * t * density
        share = tl.where(x < 0, tail, 1.0 - tail)
        slope = density * 0.3989422804014327
    return share, slope


@triton.jit
def _tile(X, BIAS, at, column, seen, C: tl.constexpr, BIASED: tl.constexpr):
    x = tl.load(X + at, mask=seen, other=0.0).to(tl.float32)
    if BIASED:
        x += tl.load(BIAS + column, mask=column < C, other=0.0).to(tl.float32)[None, :]
    return x


@triton.jit(do_not_specialize=["N"])
def _forward(
    X, BIAS, Y, N, C: tl.constexpr, BIASED: tl.constexpr, TANH: tl.constexpr,
    R: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * R + tl.arange(0, R)
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    seen = (row < N)[:, None] & (column < C)[None, :]
    at = row.to(tl.int64)[:, None] * C + column[None, :]
    x = _tile(X, BIAS, at, column, seen, C, BIASED)
    share, _ = _share_and_slope(x, TANH)
    tl.store(Y + at, (x * share).to(Y.dtype.element_ty), mask=seen)


@triton.jit(do_not_specialize=["N"])
def _backward(
    X, BIAS, dY, dX, SUMS, N, C: tl.constexpr, BIASED: tl.constexpr, TANH: tl.constexpr,
    R: tl.constexpr, BN: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    block, column = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros([R, BN], tl.float32)
    for tile in range(TILES):
        row = (block * TILES + tile) * R + tl.arange(0, R)
        seen = (row < N)[:, None] & (column < C)[None, :]
        at = row.to(tl.int64)[:, None] * C + column[None, :]
        x = _tile(X, BIAS, at, column, seen, C, BIASED)
        share, slope = _share_and_slope(x, TANH)
        dx = tl.load(dY + at, mask=seen, other=0.0).to(tl.float32) * (share + x * slope)
        dx = dx.to(dX.dtype.element_ty)
        tl.store(dX + at, dx, mask=seen)
        if BIASED:
            total += dx.to(tl.float32)
    if BIASED:
        tl.store(SUMS + block.to(tl.int64) * C + column, tl.sum(total, 0), mask=column < C)
