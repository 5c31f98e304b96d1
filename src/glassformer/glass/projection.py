"""Vectors in two dimensions: principal component analysis."""

from __future__ import annotations

import torch
from torch import Tensor


def principal_axes(vectors: Tensor, count: int = 2) -> Tensor:  # (N, C) → (C, count)
    """The directions along which centred vectors differ most, as unit columns, the first one most.

    The largest entry of each is positive, so that the picture of the same vectors is the same.
    """
    rows = vectors.double()  # (N, C)
    N, C = rows.shape
    if C <= N:
        axes = torch.linalg.eigh(rows.T @ rows).eigenvectors  # (C, C), the largest last
    else:  # the same axes from the smaller matrix
        axes = rows.T @ torch.linalg.eigh(rows @ rows.T).eigenvectors  # (C, N)
        axes = axes / axes.norm(dim=0).clamp(min=1e-30)
    best = axes.flip(-1)[:, :count]
    best = torch.nn.functional.pad(best, (0, count - best.shape[1]))
    largest = best.gather(0, best.abs().argmax(0, keepdim=True))
    return torch.where(largest < 0, -best, best)
