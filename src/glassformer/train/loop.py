"""The one loop. `fit` yields steps; whoever calls it decides what happens between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from glassformer.data.chance import mix
from glassformer.data.rows import Row, Rows
from glassformer.model import Batch
from glassformer.model.kernels import PREFERRED
from glassformer.tasks import Sum, Task
from glassformer.train.distributed import World
from glassformer.train.schedule import share
from glassformer.train.state import State

Losses = Callable[[Batch], Mapping[str, Sum]]


@dataclass(frozen=True, eq=False)
class Step:
    """What one step did. Its tensors may still be under way on the device: reading them waits."""

    number: int  # counts from 1
    losses: dict[str, Tensor]  # mean over all answers of the step, on all processes
    norm: Tensor  # of the gradient, before it was clipped
    rate: float
    tokens: int  # read by this process
    stop: bool  # somebody asked for the end

    @property
    def loss(self) -> float:
        return float(sum(each.item() for each in self.losses.values()))


def fit(
    state: State,
    rows: Rows,
    world: World,
    losses: Losses | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """From where the state is to the last step. The state moves; the batches are given by it.

    `losses` is what the task's losses are made by, where it is compiled.
    """
    train, facts = state.train, state.facts
    mine = facts.rows // world.size

    def wanted() -> Iterator[int]:
        for step in range(facts.step, train.steps):
            first = block(step, facts.skipped) * facts.rows
            yield from range(first + world.rank, first + facts.rows, world.size)

    stream = rows.stream(wanted(), workers=train.workers)
    try:
        for _ in range(facts.step, train.steps):
            yield take_step(state, [next(stream) for _ in range(mine)], world, losses, stop())
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
    rows: Sequence[Row],
    world: World,
    losses: Losses | None = None,
    stop: bool = False,
) -> Step:
    """Forward and backward for each row, then one update."""
    train, facts, weights = state.train, state.facts, state.weights
    counts, tokens, stop = _count(rows, world, stop)
    totals: dict[str, Tensor] = {}
    for i, row in enumerate(rows):
        # Dropout, too, is a function of (seed, step, row): nothing of it has to be saved, and it
        # does not matter which process takes the row.
        torch.manual_seed(int(mix(train.seed, facts.step, i * world.size + world.rank)) >> 1)
        with sdpa_kernel(PREFERRED, set_priority=True):
            found = (losses or losses_of(state.task))(row.batch.to(world.device))
        parts = {name: each.total / counts[name] for name, each in found.items()}
        torch.stack(list(parts.values())).sum().backward()
        weights.collect(first=i == 0)
        for name, part in parts.items():
            totals[name] = totals.get(name, 0) + part.detach()
    world.sum(weights.gradient)
    norm = weights.clip(train.clip)
    rate = train.learning_rate * share(
        train.schedule, facts.step, steps=train.steps, warmup=train.warmup, decay=train.decay,
        final=train.final,
    )  # fmt: skip
    weights.lend()
    for optimiser in state.optimisers:
        for group in optimiser.param_groups:
            group["lr"] = rate * group["scale"]
        optimiser.step()
    weights.take_back()
    weights.publish()
    state.follow()
    means = {name: world.sum(total) for name, total in totals.items()}
    facts.step += 1
    facts.tokens += tokens
    return Step(facts.step, means, norm, rate, sum(row.tokens for row in rows), stop)


def _count(rows: Sequence[Row], world: World, stop: bool) -> tuple[dict[str, int], int, bool]:
    """How many answers and tokens the whole step has, over all processes; and whether one of
    them wants to stop.

    Each row's loss is divided by this, so that neither the number of rows nor that of processes
    changes the mean.
    """
    names = ("labels", "follows")
    found = [sum(_answers(row.batch, name) for row in rows) for name in names]
    found += [sum(row.tokens for row in rows), int(stop)]
    *answers, tokens, stops = world.sum(torch.tensor(found)).tolist()
    counts = {name: max(1, count) for name, count in zip(names, answers, strict=True)}
    return counts, tokens, stops > 0


def _answers(batch: Batch, name: str) -> int:
    labels = getattr(batch, name)
    return 0 if labels is None else int((labels != -100).sum())
