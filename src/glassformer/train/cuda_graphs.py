"""Learning on tape: a row's way there and back, recorded once as a CUDA graph and then replayed.

A small model's kernels are done before Python has asked for the next one. A tape knows places in
memory: weights and gradients keep theirs, and each row is copied to where the first of its shape
stood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.model import Batch, Sequences

WARM = 3  # times that a shape is learnt from before: libraries set themselves up then
Parts = dict[str, Tensor]
Work = Callable[[], Parts]


class CapturedGraph(NamedTuple):
    replay: Callable[[], object]
    batch: Batch  # read by it
    parts: Parts  # written by it


class GraphCapture:
    """Of what a GPU is asked for."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def aside(self, work: Work) -> Parts:
        """On the stream that is recorded later."""
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            parts = work()
        here.wait_stream(self.stream)
        return parts

    def record(self, work: Work) -> tuple[Callable[[], object], Parts]:
        """Nothing is done before the first replay."""
        graph = torch.cuda.CUDAGraph()
        # Other threads make rows meanwhile, and may ask for memory.
        mode = {"pool": self.pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(graph, **mode):  # type: ignore[arg-type]
            parts = work()
        return graph.replay, parts


class CapturedGraphs:
    """One for each shape of a row. The same numbers as without, but for rounding: chance, too, is
    asked anew."""

    def __init__(self, device: torch.device, recorder: GraphCapture | None = None) -> None:
        self.device, self.recorder = device, recorder or GraphCapture(device)
        self.counts: dict[str, Tensor] = {}
        self.tapes: dict[Any, CapturedGraph] = {}
        self.seen: Counter[Any] = Counter()

    def play(
        self,
        learn: Callable[..., Parts],  # of a batch, the counts, and `first`
        batch: Batch,
        counts: Mapping[str, int],
        *,
        first: bool,
    ) -> Parts:
        """As `learn`; the next call overwrites what it returns. `first`: of the step's rows."""
        for name, count in counts.items():
            self.counts.setdefault(name, torch.zeros((), device=self.device)).fill_(count)
        shape = (*_shape(batch), first)
        if shape in self.tapes:
            for place, tensor in zip(
                _tensors(self.tapes[shape].batch), _tensors(batch), strict=True
            ):
                place.copy_(tensor, non_blocking=True)
        else:
            batch = batch.to(self.device)
            self.seen[shape] += 1
            work = lambda: learn(batch, self.counts, first=first)  # noqa: E731
            if self.seen[shape] <= WARM:
                return self.recorder.aside(work)
            replay, parts = self.recorder.record(work)
            self.tapes[shape] = CapturedGraph(replay, batch, parts)
        self.tapes[shape].replay()
        return self.tapes[shape].parts


def _tensors(batch: Batch) -> Iterator[Tensor]:
    """All that stand in a row. A number of Python's would stay what it was: documents, which are
    joined by such, cannot be recorded, and no recipe can ask for it."""
    for each in fields(batch):
        value = getattr(batch, each.name)
        if isinstance(value, Sequences):
            yield value.offsets
        elif isinstance(value, Batch):
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _shape(batch: Batch) -> tuple[Any, ...]:
    """All that a model asks of a row but its numbers."""
    names = [each.name for each in fields(batch) if getattr(batch, each.name) is not None]
    longest = [side.sequences.longest for side in (batch, batch.source) if side is not None]
    shapes = (tensor.shape for tensor in _tensors(batch))
    return (*names, batch.smoothing, *longest, *shapes)
