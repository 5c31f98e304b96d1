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
from glassformer.train.state import State

Losses = Callable[[Batch], Mapping[str, LossSum]]


class AsyncScalars:
    """Numbers on their way from the device. A GPU that is asked by `item` first does all that is
    queued, the next step included; behind these stands an event of their own."""

    def __init__(self, numbers: Tensor) -> None:
        self._event = torch.cuda.Event() if numbers.is_cuda else None
        self._numbers = numbers.to("cpu", non_blocking=numbers.is_cuda)
        if self._event is not None:
            self._event.record()

    def read(self) -> list[float]:
        if self._event is not None:
            self._event.synchronize()
        found: list[float] = self._numbers.tolist()
        return found


@dataclass(frozen=True, eq=False)
class Step:
    """What one step did. Its figures may still be under way: reading them waits."""

    number: int  # counts from 1
    names: tuple[str, ...]  # of the losses
    figures: AsyncScalars  # the norm, then the losses
    rate: float
    tokens: int  # read by this process
    stop: bool  # somebody asked for the end

    @property
    def norm(self) -> float:
        """Of the gradient, before it was clipped."""
        return self.figures.read()[0]

    @property
    def losses(self) -> dict[str, float]:
        """Mean over all answers of the step, on all processes."""
        return dict(zip(self.names, self.figures.read()[1:], strict=True))

    @property
    def loss(self) -> float:
        return float(sum(self.losses.values()))


def fit(
    state: State,
    rows: PackedRows,
    world: DistributedContext,
    losses: Losses | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """From where the state is to the last step. The state moves; the batches are given by it.

    `losses` is what the task's losses are made by, where it is compiled.
    """
    train, progress = state.train, state.progress
    mine = progress.rows // world.size
    tapes = (
        CapturedGraphs(world.device) if train.cuda_graphs and world.device.type == "cuda" else None
    )

    def wanted() -> Iterator[int]:
        for step in range(progress.step, train.steps):
            first = block(step, progress.skipped) * progress.rows
            yield from range(first + world.rank, first + progress.rows, world.size)

    stream = rows.stream(wanted(), workers=train.workers)
    try:
        for _ in range(progress.step, train.steps):
            taken = [next(stream) for _ in range(mine)]
            yield take_step(state, taken, world, losses, stop(), tapes)
    finally:
        stream.close()  # type: ignore[attr-defined]


def block(step: int, skipped: Sequence[int]) -> int:
    """Which rows a step takes: the next ones that were not found bad."""
    for bad in sorted(skipped):
        step += bad <= step
    return step


def losses_of(task: Task) -> Losses:
    """Only the losses: logits that nobody asks for would cost a gradient of zeros."""
    return lambda batch: task(batch).losses


def take_step(
    state: State,
    rows: Sequence[PackedRow],
    world: DistributedContext,
    losses: Losses | None = None,
    stop: bool = False,
    tapes: CapturedGraphs | None = None,
) -> Step:
    """Forward and backward for each row, then one update."""
    train, progress, weights = state.train, state.progress, state.weights
    counts, tokens, stop = _count(rows, world, stop)
    totals: dict[str, Tensor] = {}
    for i, row in enumerate(rows):
        # Dropout, too, is a function of (seed, step, row): nothing of it has to be saved, and it
        # does not matter which process takes the row.
        world.seed(int(mix(train.seed, progress.step, i * world.size + world.rank)) >> 1)
        learn = partial(_learn, weights, losses or losses_of(state.task))
        if tapes is None:
            parts = learn(row.batch.to(world.device), counts, first=i == 0)
        else:
            parts = tapes.play(learn, row.batch, counts, first=i == 0)
        for name, part in parts.items():
            totals[name] = totals.get(name, 0) + part
    world.sum(weights.gradient)
    norm = weights.clip(train.max_grad_norm)
    rate = train.learning_rate * share(
        train.schedule, progress.step, steps=train.steps, warmup=train.warmup,
        decay=train.decay_fraction, final=train.min_lr_ratio,
    )  # fmt: skip
    weights.lend()
    for optimiser in state.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        optimiser.step()
    weights.take_back()
    weights.publish()
    state.follow()
    means = world.sum(torch.stack(list(totals.values())))
    figures = AsyncScalars(torch.cat([norm[None], means]))
    progress.step += 1
    progress.tokens += tokens
    return Step(progress.step, tuple(totals), figures, rate, sum(row.tokens for row in rows), stop)


def _learn(
    weights: Weights, losses: Losses, batch: Batch, counts: Mapping[str, Any], *, first: bool
) -> dict[str, Tensor]:
    """Forward and backward of one row: its part of each loss."""
    with sdpa_kernel(PREFERRED, set_priority=True):
        found = losses(batch)
    parts = {name: each.total / counts[name] for name, each in found.items()}
    reduce(torch.add, parts.values()).backward()
    weights.collect(first=first)
    return {name: part.detach() for name, part in parts.items()}


def _count(
    rows: Sequence[PackedRow], world: DistributedContext, stop: bool
) -> tuple[dict[str, int], int, bool]:
    """How many answers and tokens the whole step has, over all processes; and whether one of
    them wants to stop.

    Each row's loss is divided by this, so that neither the number of rows nor that of processes
    changes the mean.
    """
    names = ("labels", "next_sentence_labels")
    found = [sum(_answers(row.batch, name) for row in rows) for name in names]
    found += [sum(row.tokens for row in rows), int(stop)]
    *answers, tokens, stops = world.sum(torch.tensor(found)).tolist()
    counts = {name: max(1, count) for name, count in zip(names, answers, strict=True)}
    return counts, tokens, stops > 0


def _answers(batch: Batch, name: str) -> int:
    labels = getattr(batch, name)
    return 0 if labels is None else int((labels != -100).sum())
