"""Rank correlation, with ties."""

from __future__ import annotations

import torch
from torch import Tensor


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's rank correlation of two lists of numbers; 0 if one of them is constant."""
    ranks = torch.stack([_ranks(one), _ranks(other)])
    ranks = ranks - ranks.mean(1, keepdim=True)
    spread = ranks.norm(dim=1)
    return float(ranks[0] @ ranks[1] / (spread[0] * spread[1]).clamp(min=1e-12))


def _ranks(values: Tensor) -> Tensor:
    """The place of each number among all; equal numbers share the mean of their places."""
    _, group, counts = values.flatten().double().unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    ranks: Tensor = (last - (counts - 1) / 2)[group]
    return ranks
