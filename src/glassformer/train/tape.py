"""Learning on tape: a row's way there and back, recorded once as a CUDA graph and then replayed.

A small model's kernels are done before Python has asked for the next one. A tape knows places in
memory: weights and gradients keep theirs, and each row is copied to where the first of its shape
stood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.model import Batch

WARM = 3  # times that a shape is learnt from before: libraries set themselves up then
Learn = Callable[[Batch, Mapping[str, Any]], dict[str, Tensor]]


class Tape(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Batch  # read by it
    parts: dict[str, Tensor]  # written by it


class Tapes:
    """One for each shape of a row. The same numbers as without: chance, too, is asked anew."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.counts: dict[str, Tensor] = {}
        self.tapes: dict[Any, Tape] = {}
        self.seen: Counter[Any] = Counter()
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def play(
        self, learn: Learn, batch: Batch, counts: Mapping[str, int], *, first: bool
    ) -> dict[str, Tensor]:
        """As `learn`; the next call overwrites what it returns. `first`: of the step's rows."""
        for name, count in counts.items():
            self.counts.setdefault(name, torch.zeros((), device=self.device)).fill_(count)
        shape = (*_shape(batch), first)
        if shape in self.tapes:
            _copy(batch, self.tapes[shape].batch)
        else:
            batch = batch.to(self.device)
            self.seen[shape] += 1
            if self.seen[shape] <= WARM:
                return self._aside(learn, batch)
            self.tapes[shape] = self._record(learn, batch)
        self.tapes[shape].graph.replay()
        return self.tapes[shape].parts

    def _aside(self, learn: Learn, batch: Batch) -> dict[str, Tensor]:
        """On the stream that is recorded later."""
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            parts = learn(batch, self.counts)
        here.wait_stream(self.stream)
        return parts

    def _record(self, learn: Learn, batch: Batch) -> Tape:
        graph = torch.cuda.CUDAGraph()
        # Other threads make rows meanwhile, and may ask for memory.
        mode = {"pool": self.pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(graph, **mode):  # type: ignore[arg-type]
            parts = learn(batch, self.counts)
        return Tape(graph, batch, parts)


def _shape(batch: Batch) -> tuple[Any, ...]:
    """All that a model asks of a row but its numbers."""
    found: list[Any] = [batch.smoothing, batch.sequences.count, batch.sequences.longest]
    for each in fields(batch):
        value = getattr(batch, each.name)
        found.append(value.shape if isinstance(value, Tensor) else value is None)
    return tuple(found) if batch.source is None else (*found, *_shape(batch.source))


def _copy(batch: Batch, into: Batch) -> None:
    for each in fields(batch):
        value = getattr(batch, each.name)
        if isinstance(value, Tensor):
            getattr(into, each.name).copy_(value, non_blocking=True)
    into.sequences.offsets.copy_(batch.sequences.offsets, non_blocking=True)
    if batch.source is not None and into.source is not None:
        _copy(batch.source, into.source)
