"""A step on tape: recorded once as a CUDA graph, then all its kernels start with a single call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from glassformer.model import Cache

Step: TypeAlias = Callable[[Tensor], Tensor]  # (B,) tokens → (B, V) scores


class StepGraphs:
    """One tape for each number of slots that the cache is looked at: 64, 128, 256, …

    A tape knows places in memory, not objects: where the cache's keys stand is part of its name.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.tapes: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.tokens = torch.zeros(0)  # read by every tape
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, tokens: Tensor, cache: Cache) -> Tensor:
        """As `step`, but what it returns is overwritten by the next call."""
        if self.tokens.shape != tokens.shape:
            self.tapes.clear()
            self.tokens = tokens.clone()
        self.tokens.copy_(tokens)
        counts = cache.grown((1,) * len(tokens))
        reach = min(max(64, 1 << (max(counts) - 1).bit_length()), cache.capacity)
        name = (reach, cache.keys[0].data_ptr(), cache.memory_keys[0].data_ptr())
        if name not in self.tapes:
            self.tapes[name] = self._record(cache, reach)
        graph, logits = self.tapes[name]
        graph.replay()
        cache.counts = counts
        return logits

    def _record(self, cache: Cache, reach: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        lengths, cache.reach = cache.lengths.clone(), reach
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):  # what libraries set up on first use must not be on tape
                self.step(self.tokens)
                cache.lengths.copy_(lengths)
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(graph, pool=self.pool):
                logits = self.step(self.tokens)
        finally:
            cache.reach = None
        return graph, logits
