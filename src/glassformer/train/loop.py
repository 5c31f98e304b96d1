"""The one loop. `fit` yields steps; whoever calls it decides what happens between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from glassformer.data.batches import PackedRow, PackedRows
from glassformer.data.hashing import mix
from glassformer.distributed import DistributedContext
from glassformer.model import Batch
from glassformer.model.kernels import PREFERRED
from glassformer.tasks import LossSum, Task
from glassformer.train.cuda_graphs import CapturedGraphs
from glassformer.train.optim.schedule import share
from glassformer.train.optim.weights import Weights
from glassformer.train.parallel.base import ParallelWeights
from glassformer.train.state import State

Losses = Callable[[Batch], Mapping[str, LossSum]]


class AsyncScalars:
    """Numbers on their way from the device. `item` would wait for everything that is queued, the
    next step included; these have an event of their own to wait for."""

    def __init__(self, numbers: Tensor) -> None:
        self._event = torch.cuda.Event() if numbers.is_cuda else None
        self._numbers = numbers.to("cpu", non_blocking=numbers.is_cuda)
        if self._event is not None:
            self._event.record()

    def read(self) -> list[float]:
        """The numbers, once they have arrived."""
        if self._event is not None:
            self._event.synchronize()
        values: list[float] = self._numbers.tolist()
        return values


@dataclass(frozen=True, eq=False)
class Step:
    """The results of one step. They may still be on their way: reading them waits."""

    number: int  # counts from 1
    names: tuple[str, ...]  # of the losses
    scalars: AsyncScalars  # the gradient norm, then the losses
    rate: float
    tokens: int  # read by this process
    stop: bool  # stopping was requested

    @property
    def norm(self) -> float:
        """The gradient norm, before clipping."""
        return self.scalars.read()[0]

    @property
    def losses(self) -> dict[str, float]:
        """The mean of each loss over all labels of the step, on all processes."""
        return dict(zip(self.names, self.scalars.read()[1:], strict=True))

    @property
    def loss(self) -> float:
        """The sum of the losses."""
        return float(sum(self.losses.values()))


def fit(
    state: State,
    rows: PackedRows,
    world: DistributedContext,
    losses: Losses | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """Train from the current state to the last step, and yield each step. The state is updated; it
    also decides the batches.

    `losses` computes the losses of a batch, if the task is compiled.
    """
    train, progress = state.train, state.progress
    rows_per_process = progress.rows // world.size
    graphs = (
        CapturedGraphs(world.device) if train.cuda_graphs and world.device.type == "cuda" else None
    )

    def row_numbers() -> Iterator[int]:
        for step in range(progress.step, train.steps):
            first = block(step, progress.skipped) * progress.rows
            yield from range(first + world.rank, first + progress.rows, world.size)

    losses = state.weights.losses(losses or losses_of(state.task))
    stream = rows.stream(row_numbers(), workers=train.workers)
    try:
        for _ in range(progress.step, train.steps):
            step_rows = [next(stream) for _ in range(rows_per_process)]
            yield take_step(state, step_rows, world, losses, stop(), graphs)
    finally:
        stream.close()  # type: ignore[attr-defined]


def block(step: int, skipped: Sequence[int]) -> int:
    """The block of rows that a step takes: the next one that is not skipped."""
    for bad in sorted(skipped):
        step += bad <= step
    return step


def losses_of(task: Task) -> Losses:
    """Only the losses: unused logits would cost a gradient of zeros."""
    return lambda batch: task(batch).losses


def take_step(
    state: State,
    rows: Sequence[PackedRow],
    world: DistributedContext,
    losses: Losses | None = None,
    stop: bool = False,
    graphs: CapturedGraphs | None = None,
) -> Step:
    """Forward and backward for each row, then one update."""
    train, progress, weights = state.train, state.progress, state.weights
    counts, tokens, stop = _count(rows, world, stop)
    totals: dict[str, Tensor] = {}
    for i, row in enumerate(rows):
        # Dropout, too, is a function of (seed, step, row): no random state has to be saved, and it
        # does not matter which process takes the row.
        world.seed(int(mix(train.seed, progress.step, i * world.size + world.rank)) >> 1)
        forward_backward = partial(
            _forward_backward, weights, losses or losses_of(state.task), last=i == len(rows) - 1
        )
        if graphs is None:
            parts = forward_backward(row.batch.to(world.device), counts, first=i == 0)
        else:
            parts = graphs.run(forward_backward, row.batch, counts, first=i == 0)
        for name, part in parts.items():
            totals[name] = totals.get(name, 0) + part
    weights.lend()
    norm = weights.clip(train.max_grad_norm)
    rate = train.learning_rate * share(
        train.schedule, progress.step, steps=train.steps, warmup=train.warmup,
        decay=train.decay_fraction, final=train.min_lr_ratio,
    )  # fmt: skip
    for optimiser in state.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        optimiser.step()
    weights.take_back()
    weights.publish()
    state.update_average()
    means = world.sum(torch.stack(list(totals.values())))
    scalars = AsyncScalars(torch.cat([norm[None], means]))
    progress.step += 1
    progress.tokens += tokens
    return Step(progress.step, tuple(totals), scalars, rate, sum(row.tokens for row in rows), stop)


def _forward_backward(
    weights: Weights | ParallelWeights, losses: Losses, batch: Batch, counts: Mapping[str, Any], *,
    first: bool, last: bool,
) -> dict[str, Tensor]:  # fmt: skip
    """Forward and backward pass of one row; returns its part of each loss."""
    with weights.accumulating(last=last):
        with sdpa_kernel(PREFERRED, set_priority=True):
            loss_sums = losses(batch)
        parts = {name: each.total / counts[name] for name, each in loss_sums.items()}
        loss = reduce(torch.add, parts.values())
        (loss if weights.scale == 1 else loss * weights.scale).backward()
    weights.collect(first=first)
    return {name: part.detach() for name, part in parts.items()}


def _count(
    rows: Sequence[PackedRow], world: DistributedContext, stop: bool
) -> tuple[dict[str, int], int, bool]:
    """The labels and tokens of the step, over all processes, and whether one of them is to stop.

    Each row's loss is divided by the number of labels, so that neither the number of rows nor that
    of processes changes the mean.
    """
    names = ("labels", "next_sentence_labels")
    local_counts = [sum(_label_count(row.batch, name) for row in rows) for name in names]
    local_counts += [sum(row.tokens for row in rows), int(stop)]
    *label_counts, tokens, stops = world.sum(torch.tensor(local_counts)).tolist()
    counts = {name: max(1, count) for name, count in zip(names, label_counts, strict=True)}
    return counts, tokens, stops > 0


def _label_count(batch: Batch, name: str) -> int:
    labels = getattr(batch, name)
    return 0 if labels is None else int((labels != -100).sum())
