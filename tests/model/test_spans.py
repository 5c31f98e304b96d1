"""The span of keys that each query sees says what the mask of the open arithmetic says."""

import pytest
import torch

from glassformer.kernels.spans import spans
from glassformer.model import AttentionSpec, Sequences
from glassformer.model.attention import visible

TEXTS = [7, 0, 13, 1, 0, 5, 0]
LONGER = [9, 2, 13, 4, 0, 11, 3]  # as behind a cache: the ends are aligned
SHORTER = [5, 4, 0, 1, 0, 3, 0]  # queries without keys


def seen_in_full(queries: list[int], keys: list[int], causal: bool, window: int | None):
    """(N, M) text by text."""
    blocks = []
    for T, S in zip(queries, keys, strict=True):
        seen = visible(T, S, None, AttentionSpec(causal=causal, window=window), torch.device("cpu"))
        blocks.append(torch.ones(T, S).bool() if seen is None else seen[0, 0].expand(T, S))
    return torch.block_diag(*(block.float() for block in blocks)).bool()


def inside(bounds: torch.Tensor, count: int) -> torch.Tensor:
    column = torch.arange(count)
    return (column >= bounds[0][:, None]) & (column < bounds[1][:, None])


@pytest.mark.parametrize("keys", [TEXTS, LONGER, SHORTER])
@pytest.mark.parametrize("window", [None, 0, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_spans(causal: bool, window: int | None, keys: list[int]) -> None:
    q = torch.zeros(sum(TEXTS), 1, 1)
    sequences = Sequences.of(TEXTS), Sequences.of(keys)
    rows = sequences[0].texts(q), sequences[0].offsets, sequences[1].offsets
    k = torch.zeros(sum(keys), 1, 1)
    columns = sequences[1].texts(k), sequences[1].offsets, sequences[0].offsets
    before, after = window, 0 if causal else window
    bounds, seen_by = spans(*rows, before, after), spans(*columns, after, before)
    seen = seen_in_full(TEXTS, keys, causal, window)
    assert torch.equal(inside(bounds, sum(keys)), seen)
    assert torch.equal(inside(seen_by, sum(TEXTS)), seen.T)
    assert (bounds.diff() >= 0).all() and (seen_by.diff() >= 0).all()
    assert not torch.equal(inside(bounds + 1, sum(keys)), seen)
