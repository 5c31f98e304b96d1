"""Decoding steps as CUDA graphs: captured once, then all kernels start with a single call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from glassformer.model import Cache

Step: TypeAlias = Callable[[Tensor], Tensor]  # (B,) tokens → (B, V) scores


def rounded_reach(counts: Sequence[int], capacity: int) -> int:
    """The slots of the cache that attention reads, rounded up so that few shapes occur."""
    return min(max(64, 1 << (max(counts) - 1).bit_length()), capacity)


class StepGraphs:
    """One captured graph for each length of the cache that attention reads: 64, 128, 256, …

    A graph holds addresses, not objects, so the address of the cache's keys is part of its key.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.tokens = torch.zeros(0)  # every graph reads its input here
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Like `step`, but the next call overwrites the result."""
        if self.tokens.shape != tokens.shape:
            self.graphs.clear()
            self.tokens = tokens.clone()
        self.tokens.copy_(tokens)
        counts = cache.grown((1,) * len(tokens))
        reach = rounded_reach(counts, cache.capacity)
        key = (reach, cache.keys[0].data_ptr(), cache.memory_keys[0].data_ptr())
        if key not in self.graphs:
            self.graphs[key] = self._capture(cache, reach)
        graph, logits = self.graphs[key]
        graph.replay()
        cache.counts = counts
        return logits

    def _capture(self, cache: Cache, reach: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        lengths, cache.reach = cache.lengths.clone(), reach
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):  # initialise libraries before the capture
                self.step(self.tokens)
                cache.lengths.copy_(lengths)
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(graph, pool=self.pool):
                logits = self.step(self.tokens)
        finally:
            cache.reach = None
        return graph, logits
