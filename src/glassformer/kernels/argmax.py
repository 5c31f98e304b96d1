"""The largest score of each row and its place, written in Triton.

Torch's kernel shares a row among few processors if there are few rows, as in a decoding step, where
a row has as many scores as the vocabulary has tokens.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 4096, 16  # the scores of one pass over a row, and the warps that share them


def argmax(scores: Tensor) -> tuple[Tensor, Tensor]:  # (B, V) float32 → (B, 1), (B, 1)
    """The largest score and its place; the first place if several have it."""
    scores = scores if scores.stride(-1) == 1 else scores.contiguous()
    B, V = scores.shape
    best, place = scores.new_empty(B, 1), scores.new_empty(B, 1, dtype=torch.long)
    with torch.cuda.device(scores.device):
        _argmax[B,](scores, best, place, scores.stride(0), V, BLOCK=BLOCK, num_warps=WARPS)
    return best, place


@triton.jit
def _argmax(SCORES, BEST, PLACE, stride, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    place = tl.zeros([BLOCK], tl.int32)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        scores = tl.load(SCORES + row * stride + column, mask=column < V, other=-float("inf"))
        larger = scores > best
        best = tl.where(larger, scores, best)
        place = tl.where(larger, column, place)
    largest = tl.max(best, 0)
    tl.store(BEST + row, largest)
    tl.store(PLACE + row, tl.min(tl.where(best == largest, place, V - 1), 0).to(tl.int64))
