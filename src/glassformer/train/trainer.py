"""From the first step to the last: evaluate, save, watch for bad steps, stop when asked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from glassformer.data.batches import PackedRows
from glassformer.distributed import DistributedContext
from glassformer.errors import GlassformerError
from glassformer.evaluate.loss import evaluate
from glassformer.model import Batch
from glassformer.tasks import Output, Task
from glassformer.train.loop import Losses, Step, block, fit
from glassformer.train.run_dir import RunDir
from glassformer.train.state import State

MOST_ROLLBACKS = 3
CALM = 20  # steps before a gradient counts as unusual
SPIKE = 10.0  # a gradient this many times its usual size is bad, where nobody says otherwise


class Evaluator(Protocol):
    """Uses the model as it is, and says how good that was: the higher, the better."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def figures(self, task: Task) -> dict[str, float]: ...


class Diverged(GlassformerError):
    """The loss or its gradient is no number any more, again and again."""

    exit_code = 3


class Interrupted(GlassformerError):
    """Asked to stop; saved."""

    exit_code = 75


@dataclass(frozen=True)
class Evaluated:
    step: int
    figures: dict[str, float]
    better: bool


@dataclass(frozen=True)
class Saved:
    step: int
    folder: Path


@dataclass(frozen=True)
class RolledBack:
    step: int
    bad: int
    why: str


Event = Step | Evaluated | Saved | RolledBack


@dataclass
class Trainer:
    run: RunDir
    state: State
    rows: PackedRows
    valid: PackedRows | None
    world: DistributedContext
    losses: Losses | None = None  # compiled, for training
    call: Callable[[Batch], Output] | None = None  # compiled, for evaluation
    judge: Evaluator | None = None
    stop: Callable[[], bool] = lambda: False
    _pending: list[Step] = field(default_factory=list)
    _best: tuple[int, dict[str, float]] = (-1, {})  # step and figures, if measured here
    _since: float = field(default_factory=time.monotonic)

    def pursue(self) -> Iterator[Event]:
        """Yields what happens; returns when the last step is done or nothing gets better."""
        skipped, rollbacks = self.run.bad_rows()
        self.state.facts.skipped, self.state.facts.rollbacks = skipped, rollbacks
        if self.state.facts.step == 0 and self.run.latest() is None:
            yield from self._save()  # so that there is a state to go back to
        while True:
            try:
                yield from self._forward()
            except _Divergence as bad:
                yield self._go_back(bad)
            else:
                return

    def _forward(self) -> Iterator[Event]:
        facts, train = self.state.facts, self.state.train
        if self._enough():  # it had ended so
            return
        for step in fit(self.state, self.rows, self.world, self.losses, self.stop):
            yield step
            last, asked = facts.step == train.steps, step.stop
            test = self.valid is not None and (last or facts.step % train.evaluate_every == 0)
            save = last or asked or facts.step % train.save_every == 0
            self._watch(step, settle=test or save)
            if test:
                yield self._evaluate()
            if save or (test and facts.best_step == facts.step):
                yield from self._save()
            if asked:
                raise Interrupted(
                    f"{self.run.folder}: saved after step {facts.step:,}: the same command goes on"
                )
            if self._enough():
                if not save:
                    yield from self._save()
                return

    def _enough(self) -> bool:
        """Nothing has got better for a while."""
        patience = self.state.train.patience
        return patience is not None and self.state.facts.worse >= patience

    def _watch(self, step: Step, *, settle: bool) -> None:
        """A bad step must not reach a checkpoint. A GPU is read one step late, so that it never
        waits for us; before a save all is settled."""
        self._pending.append(step)
        late = self.world.device.type == "cuda" and not settle
        ready = self._pending[:-1] if late else self._pending
        self._pending = self._pending[len(ready) :]
        facts = self.state.facts
        for each in ready:
            loss, norm = each.loss, each.norm
            if not math.isfinite(loss) or not math.isfinite(norm):
                raise _Divergence(each.number, "the loss or its gradient is no number")
            usual = facts.usual
            spike = self.state.train.grad_spike_factor or SPIKE
            if usual and each.number > CALM and norm > spike * usual:
                raise _Divergence(
                    each.number, f"the gradient is {norm / usual:.0f} times its usual size"
                )
            facts.usual = norm if not usual else 0.95 * usual + 0.05 * norm
            if self.world.is_main:
                self.run.log({"step": each.number, "loss": loss, "losses": each.losses,
                              "norm": norm, "rate": each.rate})  # fmt: skip
        if settle and not self.state.finite():
            raise _Divergence(step.number, "a weight is no number any more")

    def measure(self) -> dict[str, float]:
        """All figures of the held-out part, if there is one."""
        if self.valid is None:
            return {}
        with self.state.averaged():
            figures = evaluate(self.state.task, self.valid, self.world, self.call)
            if self.judge is not None:
                figures |= self._judged(self.judge)
        return figures

    def result(self) -> dict[str, float]:
        """The figures of a state to stay with: the best one's are known."""
        step, figures = self._best
        return figures if step == self.state.facts.step else self.measure()

    def _judged(self, judge: Evaluator) -> dict[str, float]:
        """One process judges, and all know."""
        found = torch.zeros(len(judge.names), dtype=torch.float64)
        if self.world.is_main:
            judged = judge.figures(self.state.task)
            found = torch.tensor([judged[name] for name in judge.names], dtype=torch.float64)
        return dict(zip(judge.names, self.world.sum(found).tolist(), strict=True))

    def _evaluate(self) -> Evaluated:
        facts, by = self.state.facts, self.state.train.best_by or "loss"
        figures = self.measure()
        if not math.isfinite(figures["loss"]):
            raise _Divergence(facts.step, "the loss on the held-out part is no number")
        found, loss, sign = figures[by], figures["loss"], 1 if by == "loss" else -1
        known = math.inf if facts.best_loss is None else facts.best_loss
        # Of a few examples all may be right again and again: then the surer model is better.
        better = facts.best is None or (sign * found, loss) < (sign * facts.best, known)
        if better:
            facts.best, facts.best_loss = found, loss
            facts.best_step, facts.worse = facts.step, 0
            self._best = facts.step, figures
        else:
            facts.worse += 1
        if self.world.is_main:
            self.run.log({"step": facts.step, "valid": figures})
        return Evaluated(facts.step, figures, better)

    def _save(self) -> Iterator[Event]:
        self.world.wait()
        if self.world.is_main:
            self.state.facts.seconds += time.monotonic() - self._since
            self._since = time.monotonic()
            yield Saved(self.state.facts.step, self.run.save(self.state))
        self.world.wait()

    def _go_back(self, bad: _Divergence) -> RolledBack:
        """To the last checkpoint, and on without the rows of the bad step."""
        facts = self.state.facts
        skipped = [*facts.skipped, block(bad.step - 1, facts.skipped)]
        rollbacks = facts.rollbacks + 1
        if rollbacks > MOST_ROLLBACKS:
            raise Diverged(
                f"{self.run.folder}: step {bad.step:,}: {bad.why}, and going back "
                f"{MOST_ROLLBACKS} times did not help: lower train.learning_rate"
            )
        folder = self.run.latest()
        if folder is None:
            raise Diverged(f"{self.run.folder}: step {bad.step:,}: {bad.why}")
        if self.world.is_main:
            self.run.skip(skipped, rollbacks)
        self.world.wait()
        self.state.load(folder)
        self.state.facts.skipped, self.state.facts.rollbacks = skipped, rollbacks
        self._pending, self._best = [], (-1, {})
        if self.world.is_main:
            self.run.rewind(self.state.facts.step)
        return RolledBack(self.state.facts.step, bad.step, bad.why)


class _Divergence(Exception):
    def __init__(self, step: int, why: str) -> None:
        super().__init__(why)
        self.step, self.why = step, why
