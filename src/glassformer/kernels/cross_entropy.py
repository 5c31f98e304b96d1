"""Cross-entropy over a large vocabulary, written in Triton.

The forward pass reads the logits once; the backward pass reads them and writes their gradient once.
Only one number per row is kept in between: the logarithm of its sum of exponentials.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.kernels.operators import operator

IGNORED = tl.constexpr(-100)  # the label of a row without loss
BLOCK, WARPS = 2048, 8  # the fastest on one H200
PARTS, PART, PART_WARPS = 4, 1024, 4  # of the forward pass
# The compiler may choose how to align rows: otherwise it would copy gigabytes of logits.
TAGS = (torch.Tag.flexible_layout,)


def cross_entropy_sum(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The sum over rows of −log softmax(logits)[label], like torch's cross_entropy in float32.

    logits is (N, V), labels is (N,). `smoothing` is the share of each label that is spread evenly
    over the V tokens of the vocabulary.
    """
    losses: Tensor = _cross_entropy(logits, labels, smoothing, logits.shape[1])[0]
    return losses.sum()


def _fake_losses(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    losses, lse = (logits.new_empty(logits.shape[0], dtype=torch.float32) for _ in range(2))
    return losses, lse


def _fake_grad(grad: Tensor, logits: Tensor, *_: Any) -> Tensor:
    return _aligned(logits)


@operator("glassformer::cross_entropy", _fake_losses, tags=TAGS)
def _cross_entropy(
    logits: Tensor, labels: Tensor, smoothing: float, classes: int
) -> tuple[Tensor, Tensor]:
    """Each row's loss, and the logarithm of its sum of exponentials. Columns beyond `classes` are
    padding."""
    logits = _rows(logits)
    losses, lse = (logits.new_empty(logits.shape[0], dtype=torch.float32) for _ in range(2))
    if logits.shape[0]:
        with torch.cuda.device(logits.device):
            _forward[(logits.shape[0],)](
                logits, labels, losses, lse, logits.stride(0), smoothing=smoothing,
                V=classes, PARTS=PARTS, BLOCK=PART, num_warps=PART_WARPS,
            )  # fmt: skip
    return losses, lse


@operator("glassformer::cross_entropy_grad", _fake_grad, tags=TAGS)
def _cross_entropy_grad(
    grad: Tensor, logits: Tensor, labels: Tensor, lse: Tensor, smoothing: float, classes: int
) -> Tensor:
    logits, grad = _rows(logits), grad.contiguous()
    dlogits = _aligned(logits)
    if logits.shape[0]:
        with torch.cuda.device(logits.device):
            _backward[(logits.shape[0],)](
                logits, labels, lse, grad, dlogits, logits.stride(0), dlogits.stride(0),
                logits.shape[1], smoothing=smoothing, V=classes, BLOCK=BLOCK, num_warps=WARPS,
            )  # fmt: skip
    return dlogits


def _rows(logits: Tensor) -> Tensor:
    return logits if logits.stride(1) == 1 else logits.contiguous()


def _aligned(logits: Tensor) -> Tensor:
    """An empty tensor of the same shape, with rows aligned for fast matrix products."""
    width = -(-logits.shape[1] // 64) * 64
    return logits.new_empty((logits.shape[0], width))[:, : logits.shape[1]]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, labels, *ctx.numbers = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(logits, labels, output[1])


def _differentiate(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return _cross_entropy_grad(grad, *ctx.saved_tensors, *ctx.numbers), None, None, None


torch.library.register_autograd("glassformer::cross_entropy", _differentiate, setup_context=_save)


@triton.jit
def _forward(
    LOGITS, LABELS, LOSSES, LSE, stride,
    smoothing: tl.constexpr, V: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row. Each lane keeps a maximum and a sum of its own until the end, and rescales the sum
    once for several numbers."""
    row = tl.program_id(0).to(tl.int64)
    LOGITS += row * stride
    label = tl.load(LABELS + row)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    mean = tl.zeros([BLOCK], tl.float32)
    lane = tl.arange(0, PARTS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    for at in range(0, V, PARTS * BLOCK):
        column = at + lane
        x = tl.load(LOGITS + column, mask=column < V, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        base = tl.where(higher == float("-inf"), 0.0, higher)  # ∞ − ∞ would be NaN
        total = total * tl.exp(top - base) + tl.sum(tl.exp(x - base[None, :]), 0)
        if smoothing != 0:
            mean += tl.sum(tl.where(column < V, x, 0.0), 0) / V
        top = higher
    maximum = tl.max(top, 0)
    lse = maximum + tl.log(tl.sum(total * tl.exp(top - maximum), 0))
    tl.store(LSE + row, lse)
    label_logit = tl.load(LOGITS + tl.maximum(label, 0)).to(tl.float32)
    loss = lse - (1 - smoothing) * label_logit - smoothing * tl.sum(mean, 0)
    tl.store(LOSSES + row, tl.where(label == IGNORED, 0.0, loss))


@triton.jit
def _backward(
    LOGITS, LABELS, LSE, GRAD, DLOGITS, stride, dlogits_stride, width,
    smoothing: tl.constexpr, V: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row: softmax minus the label, times the gradient of its loss; zeros in the padding."""
    row = tl.program_id(0).to(tl.int64)
    LOGITS += row * stride
    DLOGITS += row * dlogits_stride
    label = tl.load(LABELS + row)
    lse = tl.load(LSE + row)
    grad = tl.where(label == IGNORED, 0.0, tl.load(GRAD + row))
    for at in range(0, width, BLOCK):
        column = at + tl.arange(0, BLOCK)
        x = tl.load(LOGITS + column, mask=column < V, other=0.0).to(tl.float32)
        target = tl.where(column == label, 1 - smoothing, 0.0) + smoothing / V
        dlogits = tl.where(column < V, grad * (tl.exp(x - lse) - target), 0.0)
        tl.store(DLOGITS + column, dlogits.to(DLOGITS.dtype.element_ty), mask=column < width)
