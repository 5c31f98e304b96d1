"""From the first step to the last: evaluate, save, watch for bad steps, stop on request."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from glassformer.data.batches import PackedRows
from glassformer.distributed import DistributedContext
from glassformer.errors import GlassformerError
from glassformer.evaluation.loss import loss_metrics
from glassformer.model import Batch
from glassformer.objectives.base import Evaluator
from glassformer.tasks import Output
from glassformer.train.loop import Losses, Step, block, fit
from glassformer.train.run_dir import RunDir
from glassformer.train.state import State

MOST_ROLLBACKS = 3
CALM = 20  # steps before a gradient counts as unusual
SPIKE = 10.0  # a gradient this many times its usual size is bad, by default


class Diverged(GlassformerError):
    """The loss or its gradient became NaN or infinite, again and again."""

    exit_code = 3


class Interrupted(GlassformerError):
    """Stopped on request, after saving."""

    exit_code = 75


@dataclass(frozen=True)
class Evaluated:
    step: int
    metrics: dict[str, float]
    better: bool


@dataclass(frozen=True)
class Saved:
    """A checkpoint. A sharded run on GPUs may still be writing it: `folder` appears when it is
    complete."""

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
    run_dir: RunDir
    state: State
    rows: PackedRows
    valid: PackedRows | None
    world: DistributedContext
    losses: Losses | None = None  # compiled, for training
    call: Callable[[Batch], Output] | None = None  # compiled, for evaluation
    evaluator: Evaluator | None = None
    stop: Callable[[], bool] = lambda: False
    _pending: list[Step] = field(default_factory=list)
    _best: tuple[int, dict[str, float]] = (-1, {})  # step and metrics, if measured in this process
    _since: float = field(default_factory=time.monotonic)

    def run(self) -> Iterator[Event]:
        """Yield events until the last step is done or nothing improves any more."""
        skipped, rollbacks = self.run_dir.bad_rows()
        self.state.progress.skipped, self.state.progress.rollbacks = skipped, rollbacks
        if self.state.progress.step == 0 and self.run_dir.latest() is None:
            yield from self._save()  # a state to roll back to
        while True:
            try:
                with self.world.reporting():
                    yield from self._forward()
            except _Divergence as bad:
                yield self._roll_back(bad)
            else:
                return

    def _forward(self) -> Iterator[Event]:
        progress, train = self.state.progress, self.state.train
        if self.is_stalled():  # it had ended early
            return
        for step in fit(self.state, self.rows, self.world, self.losses, self.stop):
            yield step
            last, stop_requested = progress.step == train.steps, step.stop
            test = self.valid is not None and (last or progress.step % train.evaluate_every == 0)
            save = last or stop_requested or progress.step % train.save_every == 0
            self._watch(step, wait=test or save)
            if test:
                yield self._evaluate()
            if save or (test and progress.best_step == progress.step):
                yield from self._save()
            if stop_requested:
                self.finish_saving()
                raise Interrupted(
                    f"{self.run_dir.folder}: saved after step {progress.step:,}: run the same "
                    "command to resume"
                )
            if self.is_stalled():
                if not save:
                    yield from self._save()
                return

    def is_stalled(self) -> bool:
        """Whether train.patience evaluations brought no improvement."""
        patience = self.state.train.patience
        return patience is not None and self.state.progress.worse >= patience

    def _watch(self, step: Step, *, wait: bool) -> None:
        """A bad step must not reach a checkpoint. On a GPU a step is read one step late, so that it
        never waits; before a save all steps are read."""
        self._pending.append(step)
        late = self.world.device.type == "cuda" and not wait
        ready = self._pending[:-1] if late else self._pending
        self._pending = self._pending[len(ready) :]
        progress = self.state.progress
        for each in ready:
            loss, norm = each.loss, each.norm
            if not math.isfinite(loss) or not math.isfinite(norm):
                raise _Divergence(each.number, "the loss or its gradient is NaN or infinite")
            usual = progress.usual
            spike = self.state.train.grad_spike_factor or SPIKE
            if usual and each.number > CALM and norm > spike * usual:
                raise _Divergence(
                    each.number, f"the gradient is {norm / usual:.0f} times its usual size"
                )
            progress.usual = norm if not usual else 0.95 * usual + 0.05 * norm
            if self.world.is_main:
                self.run_dir.log({"step": each.number, "loss": loss, "losses": each.losses,
                              "norm": norm, "rate": each.rate})  # fmt: skip
        if wait and not self.state.weights.finite():
            raise _Divergence(step.number, "a weight is NaN or infinite")

    def measure(self) -> dict[str, float]:
        """All metrics of the validation data, if there is any."""
        if self.valid is None:
            return {}
        with self.state.averaged():
            call = self.state.weights.call(self.state.task if self.call is None else self.call)
            metrics = loss_metrics(self.state.task, self.valid, self.world, call)
            if self.evaluator is not None:
                metrics |= self._evaluator_metrics(self.evaluator)
        return metrics

    def result(self) -> dict[str, float]:
        """The metrics of the final state: those of the best checkpoint are known."""
        step, metrics = self._best
        return metrics if step == self.state.progress.step else self.measure()

    def _evaluator_metrics(self, evaluator: Evaluator) -> dict[str, float]:
        """Computed by the main process, and shared with all."""
        values = torch.zeros(len(evaluator.names), dtype=torch.float64)
        sharded = self.state.weights.outline is not None
        task = self.state.inference_task() if sharded else self.state.task
        if self.world.is_main:
            metrics = evaluator.metrics(task.to(self.world.device))
            values = torch.tensor([metrics[name] for name in evaluator.names], dtype=torch.float64)
        self.world.wait()
        return dict(zip(evaluator.names, self.world.sum(values).tolist(), strict=True))

    def _evaluate(self) -> Evaluated:
        progress, by = self.state.progress, self.state.train.best_by or "loss"
        metrics = self.measure()
        if not math.isfinite(metrics["loss"]):
            raise _Divergence(progress.step, "the validation loss is NaN or infinite")
        value, loss, sign = metrics[by], metrics["loss"], 1 if by == "loss" else -1
        known = math.inf if progress.best_loss is None else progress.best_loss
        # On few examples all may be right every time: then the lower loss is better.
        better = progress.best is None or (sign * value, loss) < (sign * progress.best, known)
        if better:
            progress.best, progress.best_loss = value, loss
            progress.best_step, progress.worse = progress.step, 0
            self._best = progress.step, metrics
        else:
            progress.worse += 1
        if self.world.is_main:
            self.run_dir.log({"step": progress.step, "valid": metrics})
        return Evaluated(progress.step, metrics, better)

    def _save(self) -> Iterator[Event]:
        self.world.wait()
        self.state.progress.seconds += time.monotonic() - self._since
        self._since = time.monotonic()
        if self.world.is_main or self.state.weights.outline is not None:
            folder = self.run_dir.save(self.state)
            if self.world.is_main:
                yield Saved(self.state.progress.step, folder)
        self.world.wait()

    def finish_saving(self) -> None:
        """Wait for a checkpoint that is being written, in all processes: the main one completes
        it after the others have written their shares."""
        self.run_dir.finish_saving()
        self.world.wait()

    def _roll_back(self, bad: _Divergence) -> RolledBack:
        """Return to the last checkpoint and skip the rows of the bad step."""
        self.finish_saving()
        progress = self.state.progress
        skipped = [*progress.skipped, block(bad.step - 1, progress.skipped)]
        rollbacks = progress.rollbacks + 1
        if rollbacks > MOST_ROLLBACKS:
            raise Diverged(
                f"{self.run_dir.folder}: step {bad.step:,}: {bad.why}, and rolling back "
                f"{MOST_ROLLBACKS} times did not help: lower train.learning_rate"
            )
        folder = self.run_dir.latest()
        if folder is None:
            raise Diverged(f"{self.run_dir.folder}: step {bad.step:,}: {bad.why}")
        if self.world.is_main:
            self.run_dir.skip(skipped, rollbacks)
        self.world.wait()
        self.state.load(folder)
        self.state.progress.skipped, self.state.progress.rollbacks = skipped, rollbacks
        self._pending, self._best = [], (-1, {})
        if self.world.is_main:
            self.run_dir.rewind(self.state.progress.step)
        return RolledBack(self.state.progress.step, bad.step, bad.why)


class _Divergence(Exception):
    def __init__(self, step: int, why: str) -> None:
        super().__init__(why)
        self.step, self.why = step, why
