"""Attention of one new token per text over the keys in its cache, written in Triton.

There is one program per text and key head, which reads the text's own keys only, however long its
neighbours are. The query heads that share a key head are the rows of one product.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from glassformer.kernels.operators import operator
from glassformer.kernels.span_attention import load, mix, store

KEYS, WARPS, STAGES = 64, 4, 3  # keys of a block: the fastest on one H200 for heads of 64
ROWS = 16  # the least that a product takes
EVERYTHING = 1 << 30  # a window that is never reached


def _fake(q: Tensor, *_: object) -> Tensor:
    return q.new_empty(q.shape)


@operator("glassformer::cached_attention", _fake)
def cached_attention(
    q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, window: int | None, scale: float
) -> Tensor:
    """softmax(q kᵀ · scale) v for q (B, H, D) over k and v (B, G, S, D).

    Text b has offsets[b + 1] − offsets[b] keys; its query stands at the last of them and sees those
    that are at most `window` before it, or all.
    """
    q = q if q.stride(-1) == 1 else q.contiguous()
    B, H, D = q.shape
    group, mixed = H // k.shape[1], q.new_empty(q.shape)
    reach = EVERYTHING if window is None else window
    rows = max(ROWS, triton.next_power_of_2(group))
    strides = (*q.stride()[:2], *k.stride()[:3], *v.stride()[:3], *mixed.stride()[:2])
    with torch.cuda.device(q.device):
        _attend[B, k.shape[1]](
            q, k, v, mixed, offsets, *strides, scale, reach, group,
            D=D, BD=max(16, triton.next_power_of_2(D)), BM=rows, BN=KEYS,
            num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
    return mixed


@triton.jit(do_not_specialize=["window"], do_not_specialize_on_alignment=["OFFSETS"])
def _attend(
    Q, K, V, OUT, OFFSETS, qb, qh, kb, kh, ks, vb, vh, vs, ob, oh, scale, window, group,
    D: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The query heads of one text that share a key head."""
    text, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    end = tl.load(OFFSETS + text + 1) - tl.load(OFFSETS + text)
    begin = tl.maximum(end - 1 - window, 0)
    row = tl.arange(0, BM)
    q = load(Q + text * qb + head * group * qh, row, group, qh, D, BD)
    low, high = tl.zeros([BM], tl.int32) + begin, tl.zeros([BM], tl.int32) + end
    K += text * kb + head * kh
    V += text * vb + head * vh
    mixed, _, _ = mix(q, K, V, ks, vs, low, high, begin, end, scale, D, BD, BN)
    store(OUT + text * ob + head * group * oh, mixed, row, group, oh, D, BD)
