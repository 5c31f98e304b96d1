"""Residual connection and layer norm, with the bias and the dropout before them, in Triton.

    total = residual + dropout(x + bias)        y = layer norm(total)

The forward pass reads and writes each of its tensors once. So does the backward pass, which also
adds up the gradients of both biases and of the norm's weight: each program has its own rows and its
own sums, so that the same input gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.kernels.dropout import RANGE
from glassformer.kernels.operators import operator

WARPS = 1  # of a row: the fastest on one H200 for a width of 768
PROGRAMS = 1056  # of the backward pass: eight for each multiprocessor of an H200


def _fake(x: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), _stats(x)


def _fake_grad(dy: Tensor, total: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    dx = total.new_empty(total.shape if _dropped(rest[-1]) else 0)
    return total.new_empty(total.shape), dx, _sums(total)


@operator("glassformer::add_norm", _fake)
def _add_norm(
    x: Tensor, bias: Tensor | None, residual: Tensor, weight: Tensor, shift: Tensor | None,
    eps: float, seed: Tensor | None, p: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The total, its layer norm, and the mean and 1 / deviation of each row."""
    x, residual = x.contiguous(), residual.contiguous()
    total, y, stats = _fake(x)
    N, C = x.shape
    if N:
        with torch.cuda.device(x.device):
            _forward[(N,)](
                x, _or(bias, x), residual, weight, _or(shift, x), _or(seed, x), total, y, stats,
                C=C, eps=eps, BIASED=bias is not None, SHIFTED=shift is not None,
                DROPPED=_dropped(p), scale=1 / (1 - p), BLOCK=triton.next_power_of_2(C),
                num_warps=WARPS,
            )  # fmt: skip
    return total, y, stats


@operator("glassformer::add_norm_grad", _fake_grad)
def _add_norm_grad(
    dy: Tensor, total: Tensor, dtotal: Tensor | None, stats: Tensor, weight: Tensor,
    seed: Tensor | None, p: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of the residual and, with dropout, of x, which are the same without; and the
    sums of those of the norm's weight, its bias and the bias of x for each program."""
    dy = dy.contiguous()
    dtotal = None if dtotal is None else dtotal.contiguous()
    dresidual, dx, sums = _fake_grad(dy, total, p)
    N, C = total.shape
    if N:
        with torch.cuda.device(total.device):
            _backward[(len(sums),)](
                dy, total, _or(dtotal, total), stats, weight, _or(seed, total), dresidual, dx, sums,
                N, C=C, ADDED=dtotal is not None, DROPPED=_dropped(p), scale=1 / (1 - p),
                BLOCK=triton.next_power_of_2(C), num_warps=WARPS,
            )  # fmt: skip
    return dresidual, dx, sums


def _or(given: Tensor | None, other: Tensor) -> Tensor:
    return other if given is None else given  # not read


def _dropped(p: float) -> int:
    """Smaller random numbers are dropped; without dropout there is no seed, and p is 0."""
    return round(p * RANGE)


def _stats(x: Tensor) -> Tensor:
    return x.new_empty((x.shape[0], 2), dtype=torch.float32)


def _sums(x: Tensor) -> Tensor:
    return x.new_empty((min(PROGRAMS, x.shape[0]), 3, x.shape[1]), dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, bias, _, weight, shift, _, seed, ctx.p = inputs
    total, _, stats = output
    ctx.biased, ctx.shifted = bias is not None, shift is not None
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(total, stats, weight, seed)


def _differentiate(
    ctx: Any, dtotal: Tensor | None, dy: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    total, stats, weight, seed = ctx.saved_tensors
    dy = torch.zeros_like(total) if dy is None else dy
    dresidual, dx, sums = _add_norm_grad(dy, total, dtotal, stats, weight, seed, ctx.p)
    dweight, dshift, dbias = sums.sum(0).to(weight.dtype)
    return (
        dx if _dropped(ctx.p) else dresidual, dbias if ctx.biased else None, dresidual, dweight,
        dshift if ctx.shifted else None, None, None, None,
    )  # fmt: skip


torch.library.register_autograd("glassformer::add_norm", _differentiate, setup_context=_save)


@triton.jit
def _dropout(x, index, SEED, DROPPED: tl.constexpr, scale: tl.constexpr):
    """With the bits of kernels/dropout.py."""
    bits = (index ^ tl.load(SEED)).to(tl.uint32)
    bits *= 2654435761
    bits ^= bits >> 15
    bits *= 2246822507
    bits ^= bits >> 13
    bits *= 3266489909
    bits ^= bits >> 16
    return tl.where((bits & 0xFFFF) >= DROPPED, x * scale, 0.0)


@triton.jit
def _forward(
    X, BIAS, RESIDUAL, WEIGHT, SHIFT, SEED, TOTAL, Y, STATS, C: tl.constexpr, eps: tl.constexpr,
    BIASED: tl.constexpr, SHIFTED: tl.constexpr, DROPPED: tl.constexpr, scale: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    seen, at = column < C, row.to(tl.int64) * C + column
    x = tl.load(X + at, mask=seen, other=0.0).to(tl.float32)
    if BIASED:
        x += tl.load(BIAS + column, mask=seen, other=0.0).to(tl.float32)
    if DROPPED:
        x = _dropout(x, row * C + column, SEED, DROPPED, scale)
    total = x + tl.load(RESIDUAL + at, mask=seen, other=0.0).to(tl.float32)
    total = total.to(TOTAL.dtype.element_ty)
    tl.store(TOTAL + at, total, mask=seen)
    x = total.to(tl.float32)
    mean = tl.sum(x, 0) / C
    x = tl.where(seen, x - mean, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(x * x, 0) / C + eps)
    tl.store(STATS + 2 * row, mean)
    tl.store(STATS + 2 * row + 1, inverse)
    y = x * inverse * tl.load(WEIGHT + column, mask=seen, other=0.0).to(tl.float32)
    if SHIFTED:
        y += tl.load(SHIFT + column, mask=seen, other=0.0).to(tl.float32)
    tl.store(Y + at, y.to(Y.dtype.element_ty), mask=seen)


@triton.jit(do_not_specialize=["N"])
def _backward(
    dY, TOTAL, dTOTAL, STATS, WEIGHT, SEED, dRESIDUAL, dX, SUMS, N, C: tl.constexpr,
    ADDED: tl.constexpr, DROPPED: tl.constexpr, scale: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program, column = tl.program_id(0), tl.arange(0, BLOCK)
    seen = column < C
    weight = tl.load(WEIGHT + column, mask=seen, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK], tl.float32)
    dshift = tl.zeros([BLOCK], tl.float32)
    dbias = tl.zeros([BLOCK], tl.float32)
    for row in range(program, N, tl.num_programs(0)):
        at = row.to(tl.int64) * C + column  # type: ignore[attr-defined]
        dy = tl.load(dY + at, mask=seen, other=0.0).to(tl.float32)
        x = tl.load(TOTAL + at, mask=seen, other=0.0).to(tl.float32)
        inverse = tl.load(STATS + 2 * row + 1)
        x = tl.where(seen, (x - tl.load(STATS + 2 * row)) * inverse, 0.0)
        dweight += dy * x
        dshift += dy
        dy *= weight
        dx = (dy - tl.sum(dy, 0) / C - x * (tl.sum(dy * x, 0) / C)) * inverse
        if ADDED:
            dx += tl.load(dTOTAL + at, mask=seen, other=0.0).to(tl.float32)
        dx = dx.to(dRESIDUAL.dtype.element_ty)
        tl.store(dRESIDUAL + at, dx, mask=seen)
        if DROPPED:
            dx = _dropout(dx.to(tl.float32), row * C + column, SEED, DROPPED, scale)
            dx = dx.to(dX.dtype.element_ty)
            tl.store(dX + at, dx, mask=seen)
        dbias += dx.to(tl.float32)
    SUMS += program.to(tl.int64) * 3 * C + column
    tl.store(SUMS, dweight, mask=seen)
    tl.store(SUMS + C, dshift, mask=seen)
    tl.store(SUMS + 2 * C, dbias, mask=seen)
