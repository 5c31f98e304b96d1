"""Attention over a ragged row of texts, written in Triton.

Each query sees one span of keys, low[i] ≤ j < high[i]: its own text, cut by causality or a window.
Both bounds never decrease along the row, so a block of queries needs the keys from the first
query's low to the last query's high, whichever texts lie in it:

    keys      0 1 2 3 4 5 6          low  high
    query 0   ■ ■ ■ · · · ·           0    3
    query 1   ■ ■ ■ · · · ·           0    3
    query 2   ■ ■ ■ · · · ·           0    3
    query 3   · · · ■ · · ·           3    4     a block of queries 2 to 5 reads keys 0 to 6
    query 4   · · · · ■ ■ ■           4    7
    query 5   · · · · ■ ■ ■           4    7
    query 6   · · · · ■ ■ ■           4    7

There is one program per block of the row, so short texts cost no more than long ones. The backward
pass computes the weights twice, once for dq and once for dk and dv: every sum then belongs to one
program, nothing is added atomically, and the same input gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.kernels.operators import operator

# Queries and keys of a block, warps, pipeline stages: the fastest on one H200 for heads of 64.
FORWARD = (64, 32, 4, 3)
BACKWARD_QUERIES = (64, 32, 4, 3)
BACKWARD_KEYS = (32, 64, 4, 3)

LOG2E = tl.constexpr(1.4426950408889634)  # 2^x is an instruction, e^x is not
# A row may have any number of tokens: no kernel is recompiled for another number.
_kernel = triton.jit(
    do_not_specialize=["N", "M"],
    do_not_specialize_on_alignment=["LOW", "HIGH", "LSE", "DELTA", "SUMS"],
)


def span_attention(
    q: Tensor, k: Tensor, v: Tensor, spans: Tensor, seen_by: Tensor | None, scale: float
) -> Tensor:
    """softmax(q kᵀ · scale) v, where query i sees the keys from spans[0, i] up to spans[1, i].

    q is (N, H, D), k and v are (M, G, D), spans is (2, N); `seen_by`, (2, M), has the queries that
    see each key: only the gradient needs it. A query whose span is empty gets zeros.
    """
    mixed: Tensor = _attention(q, k, v, spans, seen_by, scale)[0]
    return mixed


def _fake_attention(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _empty(q), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


def _fake_grad(_: Tensor, q: Tensor, k: Tensor, v: Tensor, *__: Any) -> tuple[Tensor, ...]:
    return _empty(q), _empty(k), _empty(v)


@operator("glassformer::span_attention", _fake_attention)
def _attention(
    q: Tensor, k: Tensor, v: Tensor, spans: Tensor, seen_by: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Also returns log₂ of the sum of each query's exponentials, (H, N)."""
    return _mix(_rows(q), _rows(k), _rows(v), spans, scale)


def _mix(q: Tensor, k: Tensor, v: Tensor, spans: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    mixed, lse = _empty(q), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    queries, keys, warps, stages = FORWARD
    _launch(
        _forward, (q.shape[1], triton.cdiv(q.shape[0], queries)),
        (q, k, v, mixed), (lse, *spans, scale, q.shape[0]),
        BM=queries, BN=keys, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return mixed, lse


@operator("glassformer::span_attention_grad", _fake_grad)
def _attention_grad(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mixed: Tensor,
    lse: Tensor,
    spans: Tensor,
    seen_by: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = _rows(q), _rows(k), _rows(v)
    grads = _empty(q), _empty(k), _empty(v)
    _backward((q, k, v), grads, grad, mixed, lse, spans, seen_by, scale)
    return grads


def _backward(
    qkv: Sequence[Tensor], grads: Sequence[Tensor], grad: Tensor, mixed: Tensor, lse: Tensor,
    spans: Tensor, seen_by: Tensor, scale: float, sums: Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """Writes the gradients of q, k and v, and the sums of each of their blocks of rows."""
    (q, k, v), (dq, dk, dv), grad = qkv, grads, _rows(grad)
    delta, (N, H), (M, G) = torch.empty_like(lse), q.shape[:2], k.shape[:2]
    dq_sums, dkv_sums = (lse, lse) if sums is None else sums  # not read
    queries, keys, warps, stages = BACKWARD_QUERIES
    _launch(
        _backward_queries, (H, triton.cdiv(N, queries)),
        (q, k, v, mixed, grad, dq), (lse, delta, dq_sums, *spans, scale, N),
        BM=queries, BN=keys, SUMMED=sums is not None, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    queries, keys, warps, stages = BACKWARD_KEYS
    _launch(
        _backward_keys, (G, triton.cdiv(M, keys)),
        (q, k, v, grad, dk, dv), (lse, delta, dkv_sums, *seen_by, scale, N, M),
        BM=queries, BN=keys, SUMMED=sums is not None, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, seen_by, ctx.scale = inputs
    ctx.set_materialize_grads(False)  # the gradient of the sums is not needed
    ctx.save_for_backward(*tensors, *output, seen_by)


def _differentiate(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, spans, mixed, lse, seen_by = ctx.saved_tensors
    grads = _attention_grad(grad, q, k, v, mixed, lse, spans, seen_by, ctx.scale)
    return *grads, None, None, None


torch.library.register_autograd("glassformer::span_attention", _differentiate, setup_context=_save)


def _fake_joint(qkv: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    N, H, D = qkv.shape[0], *qkv.shape[2:]
    return qkv.new_empty((N, H, D)), qkv.new_empty((H, N), dtype=torch.float32)


@operator("glassformer::joint_attention", _fake_joint)
def _joint_attention(
    qkv: Tensor, bias: Tensor | None, spans: Tensor, seen_by: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """The same for queries, keys and values of one product: (N, 3, H, D).

    `bias` has been added to the product. It gets its gradient here, where that of the product is
    computed, so that nothing is read again for it.
    """
    q, k, v = _rows(qkv).unbind(1)
    return _mix(q, k, v, spans, scale)


def _fake_joint_grad(_: Tensor, qkv: Tensor, *__: Any) -> tuple[Tensor, Tensor, Tensor]:
    return qkv.new_empty(qkv.shape), *_empty_sums(qkv)


@operator("glassformer::joint_attention_grad", _fake_joint_grad)
def _joint_grad(
    grad: Tensor, qkv: Tensor, mixed: Tensor, lse: Tensor, spans: Tensor, seen_by: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dqkv, sums = qkv.new_empty(qkv.shape), _empty_sums(qkv)
    pair = _rows(qkv).unbind(1), dqkv.unbind(1)
    _backward(*pair, grad, mixed, lse, spans, seen_by, scale, sums)
    return dqkv, *sums


def _empty_sums(qkv: Tensor) -> tuple[Tensor, Tensor]:
    """Empty tensors for the sums of dq, and of dk and dv, over each block of rows."""
    N, _, H, D = qkv.shape
    queries, keys = -(-N // BACKWARD_QUERIES[0]), -(-N // BACKWARD_KEYS[1])
    shapes = (queries, 1, H, D), (keys, 2, H, D)
    first, second = (qkv.new_empty(shape, dtype=torch.float32) for shape in shapes)
    return first, second


def _save_joint(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    qkv, bias, spans, seen_by, ctx.scale = inputs
    ctx.set_materialize_grads(False)
    ctx.dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(qkv, *output, spans, seen_by)


def _differentiate_joint(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    dqkv, *sums = _joint_grad(grad, *ctx.saved_tensors, ctx.scale)
    dbias = None
    if ctx.dtype is not None:
        dbias = torch.cat([each.sum(0) for each in sums]).flatten().to(ctx.dtype)
    return dqkv, dbias, None, None, None


torch.library.register_autograd(
    "glassformer::joint_attention", _differentiate_joint, setup_context=_save_joint
)


def _rows(x: Tensor) -> Tensor:
    """The kernels take any strides of tokens and heads, but a head's numbers must be contiguous."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _empty(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _launch(
    kernel: Any, grid: tuple[int, int], rows: tuple[Tensor, ...], more: Any, **meta: int
) -> None:
    """`rows` are (tokens, heads, D), q and k the first two; their strides are passed, too."""
    if 0 in grid:
        return
    strides = [size for x in rows for size in x.stride()[:2]]
    D, group = rows[0].shape[2], rows[0].shape[1] // rows[1].shape[1]
    with torch.cuda.device(rows[0].device):
        kernel[grid](
            *rows, *strides, *more, group, D=D, BD=max(16, triton.next_power_of_2(D)), **meta
        )


@triton.jit
def load(X, row, count, stride, D: tl.constexpr, BD: tl.constexpr):
    """Rows of one head, (rows, BD); zeros from `count` on."""
    d = tl.arange(0, BD)
    mask = (row < count)[:, None] & (d < D)[None, :]
    return tl.load(X + row.to(tl.int64)[:, None] * stride + d[None, :], mask=mask, other=0.0)


@triton.jit
def store(X, x, row, count, stride, D: tl.constexpr, BD: tl.constexpr):
    d = tl.arange(0, BD)
    mask = (row < count)[:, None] & (d < D)[None, :]
    tl.store(X + row.to(tl.int64)[:, None] * stride + d[None, :], x.to(X.dtype.element_ty), mask)


@triton.jit
def store_sum(X, x, row, heads, D: tl.constexpr, BD: tl.constexpr):
    """The sum over the rows of x, as one row of (rows, heads, D)."""
    d = tl.arange(0, BD)
    tl.store(X + row.to(tl.int64) * heads * D + d, tl.sum(x, 0), mask=d < D)


@_kernel
def _forward(
    Q, K, V, OUT, qn, qh, kn, kh, vn, vh, on, oh, LSE, LOW, HIGH, scale, N, group,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One head of one block of queries."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * BM
    K += head // group * kh
    V += head // group * vh
    row = first + tl.arange(0, BM)
    low = tl.load(LOW + row, mask=row < N, other=0)
    high = tl.load(HIGH + row, mask=row < N, other=0)
    end = tl.load(HIGH + tl.minimum(first + BM, N) - 1)
    q = load(Q + head * qh, row, N, qn, D, BD)
    mixed, total, top = mix(q, K, V, kn, vn, low, high, tl.load(LOW + first), end, scale, D, BD, BN)
    store(OUT + head * oh, mixed, row, N, on, D, BD)
    tl.store(LSE + head * N + row, tl.where(total > 0, top + tl.log2(total), 0.0), mask=row < N)


@triton.jit
def mix(
    q, K, V, kn, vn, low, high, begin, end, scale,
    D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Rows of queries over the keys from `begin` to `end`, of which each sees low ≤ j < high.

    Returns the mixed values, and the sum of the exponentials against the greatest score.
    """
    top = tl.full([q.shape[0]], float("-inf"), tl.float32)  # the greatest score so far
    total = tl.zeros([q.shape[0]], tl.float32)
    mixed = tl.zeros([q.shape[0], BD], tl.float32)
    for at in range(begin, end, BN):
        column = at + tl.arange(0, BN)
        k = load(K, column, end, kn, D, BD)
        scores = tl.dot(q, tl.trans(k)) * (scale * LOG2E)
        seen = (column[None, :] >= low[:, None]) & (column[None, :] < high[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)  # ∞ − ∞ would be NaN
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(weights, 1)
        v = load(V, column, end, vn, D, BD)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        top = higher
    return mixed / tl.where(total > 0, total, 1.0)[:, None], total, top


@_kernel
def _backward_queries(
    Q, K, V, OUT, dO, dQ, qn, qh, kn, kh, vn, vh, on, oh, gn, gh, dqn, dqh,
    LSE, DELTA, SUMS, LOW, HIGH, scale, N, group,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SUMMED: tl.constexpr,
):  # fmt: skip
    """dq of one head of one block of queries; and Σ_d dO · O, which the keys need as well."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * BM
    K += head // group * kh
    V += head // group * vh
    row = first + tl.arange(0, BM)
    low = tl.load(LOW + row, mask=row < N, other=0)
    high = tl.load(HIGH + row, mask=row < N, other=0)
    end = tl.load(HIGH + tl.minimum(first + BM, N) - 1)
    lse = tl.load(LSE + head * N + row, mask=row < N, other=0.0)
    q = load(Q + head * qh, row, N, qn, D, BD)
    o = load(OUT + head * oh, row, N, on, D, BD)
    do = load(dO + head * gh, row, N, gn, D, BD)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(DELTA + head * N + row, delta, mask=row < N)
    dq = tl.zeros([BM, BD], tl.float32)
    for at in range(tl.load(LOW + first), end, BN):
        column = at + tl.arange(0, BN)
        k = load(K, column, end, kn, D, BD)
        v = load(V, column, end, vn, D, BD)
        scores = tl.dot(q, tl.trans(k)) * (scale * LOG2E)
        seen = (column[None, :] >= low[:, None]) & (column[None, :] < high[:, None])
        weights = tl.where(seen, tl.exp2(scores - lse[:, None]), 0.0)
        dscores = weights * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(dscores.to(k.dtype), k, dq)
    store(dQ + head * dqh, dq * scale, row, N, dqn, D, BD)
    if SUMMED:
        store_sum(SUMS + head * D, dq * scale, tl.program_id(1), tl.num_programs(0), D, BD)


@_kernel
def _backward_keys(
    Q, K, V, dO, dK, dV, qn, qh, kn, kh, vn, vh, gn, gh, dkn, dkh, dvn, dvh,
    LSE, DELTA, SUMS, LOW, HIGH, scale, N, M, group,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SUMMED: tl.constexpr,
):  # fmt: skip
    """dk and dv of one head of one block of keys, over all query heads that share it."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * BN
    column = first + tl.arange(0, BN)
    low = tl.load(LOW + column, mask=column < M, other=0)
    high = tl.load(HIGH + column, mask=column < M, other=0)
    begin = tl.load(LOW + first)
    end = tl.load(HIGH + tl.minimum(first + BN, M) - 1)
    k = load(K + head * kh, column, M, kn, D, BD)
    v = load(V + head * vh, column, M, vn, D, BD)
    dk = tl.zeros([BN, BD], tl.float32)
    dv = tl.zeros([BN, BD], tl.float32)
    for query_head in range(head * group, head * group + group):
        for at in range(begin, end, BM):
            row = at + tl.arange(0, BM)
            q = load(Q + query_head * qh, row, end, qn, D, BD)
            do = load(dO + query_head * gh, row, end, gn, D, BD)
            lse = tl.load(LSE + query_head * N + row, mask=row < end, other=0.0)
            delta = tl.load(DELTA + query_head * N + row, mask=row < end, other=0.0)
            scores = tl.dot(k, tl.trans(q)) * (scale * LOG2E)  # (keys, queries)
            seen = (row[None, :] >= low[:, None]) & (row[None, :] < high[:, None])
            weights = tl.where(seen, tl.exp2(scores - lse[None, :]), 0.0)
            dv = tl.dot(weights.to(do.dtype), do, dv)
            dscores = weights * (tl.dot(v, tl.trans(do)) - delta[None, :])
            dk = tl.dot(dscores.to(q.dtype), q, dk)
    store(dK + head * dkh, dk * scale, column, M, dkn, D, BD)
    store(dV + head * dvh, dv, column, M, dvn, D, BD)
    if SUMMED:
        heads = tl.num_programs(0)
        store_sum(SUMS + head * D, dk * scale, 2 * tl.program_id(1), heads, D, BD)
        store_sum(SUMS + head * D, dv, 2 * tl.program_id(1) + 1, heads, D, BD)
