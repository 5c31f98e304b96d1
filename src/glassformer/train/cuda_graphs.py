"""CUDA graphs: the forward and backward pass of a row, captured once and then replayed.

A small model's kernels finish before Python has launched the next one. A graph has fixed addresses:
weights and gradients keep theirs, and each row is copied into the tensors of the first row of its
shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.model import Batch, Sequences

WARM = 3  # runs of each shape before its capture, in which libraries initialise themselves
Parts = dict[str, Tensor]
Work = Callable[[], Parts]


class CapturedGraph(NamedTuple):
    replay: Callable[[], object]
    batch: Batch  # its input
    parts: Parts  # its output


class GraphCapture:
    """Captures the work of a GPU as graphs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def warm_up(self, work: Work) -> Parts:
        """Run the work on the stream that is captured later."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            parts = work()
        current.wait_stream(self.stream)
        return parts

    def capture(self, work: Work) -> tuple[Callable[[], object], Parts]:
        """Capture the work: returns how to replay it, and its output. Nothing runs before the first
        replay."""
        graph = torch.cuda.CUDAGraph()
        # Other threads build rows meanwhile, and may allocate memory.
        mode = {"pool": self.pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(graph, **mode):  # type: ignore[arg-type]
            parts = work()
        return graph.replay, parts


class CapturedGraphs:
    """One graph for each shape of a row. The results are those without graphs, up to rounding:
    replays draw new random numbers, too."""

    def __init__(self, device: torch.device, capture: GraphCapture | None = None) -> None:
        self.device, self.capture = device, capture or GraphCapture(device)
        self.counts: dict[str, Tensor] = {}
        self.graphs: dict[Any, CapturedGraph] = {}
        self.seen: Counter[Any] = Counter()

    def run(
        self,
        compute: Callable[..., Parts],  # called with the batch, the counts and `first`
        batch: Batch,
        counts: Mapping[str, int],
        *,
        first: bool,
    ) -> Parts:
        """The result of `compute`; the next call overwrites it. `first`: this row starts a step."""
        for name, count in counts.items():
            self.counts.setdefault(name, torch.zeros((), device=self.device)).fill_(count)
        shape = (*_shape(batch), first)
        if shape in self.graphs:
            for target, tensor in zip(
                _tensors(self.graphs[shape].batch), _tensors(batch), strict=True
            ):
                target.copy_(tensor, non_blocking=True)
        else:
            batch = batch.to(self.device)
            self.seen[shape] += 1
            work = lambda: compute(batch, self.counts, first=first)  # noqa: E731
            if self.seen[shape] <= WARM:
                return self.capture.warm_up(work)
            replay, parts = self.capture.capture(work)
            self.graphs[shape] = CapturedGraph(replay, batch, parts)
        self.graphs[shape].replay()
        return self.graphs[shape].parts


def _tensors(batch: Batch) -> Iterator[Tensor]:
    """All tensors of a row. A Python number would keep its first value: documents, which are joined
    by such numbers, cannot be captured, and no recipe allows it."""
    for each in fields(batch):
        value = getattr(batch, each.name)
        if isinstance(value, Sequences):
            yield value.offsets
        elif isinstance(value, Batch):
            yield from _tensors(value)
        elif isinstance(value, Tensor):
            yield value


def _shape(batch: Batch) -> tuple[Any, ...]:
    """All that a model reads of a row, except the values of its tensors."""
    names = [each.name for each in fields(batch) if getattr(batch, each.name) is not None]
    longest = [side.sequences.longest for side in (batch, batch.source) if side is not None]
    shapes = (tensor.shape for tensor in _tensors(batch))
    return (*names, batch.smoothing, *longest, *shapes)
