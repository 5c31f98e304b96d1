"""Curves for TensorBoard, from the extra `log`: the contents of metrics.jsonl, and the speed.

A run that is resumed or rolled back hides the points of the steps that it repeats.
"""

from __future__ import annotations

import time
from pathlib import Path

from glassformer.durable import writing
from glassformer.train.loop import Step
from glassformer.train.trainer import Evaluated, Event, RolledBack


class TensorBoardLogger:
    """Logs all events in order. A step is written at the next event, because a GPU may not have
    finished it before."""

    def __init__(self, folder: Path, done: int, processes: int) -> None:
        self.folder, self.processes = folder, processes
        self._pending: tuple[Step, float | None] | None = None
        self._since: float | None = None  # the end of the last step, if nothing came between
        self._open(done)

    def _open(self, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with writing(self.folder, 0):
            self.writer = SummaryWriter(str(self.folder), purge_step=done + 1)

    def log(self, event: Event) -> None:
        if isinstance(event, RolledBack):  # the pending step is one of the bad ones
            self._pending = None
            self.close()
            self._open(event.step)
            return
        self._write_pending()
        if isinstance(event, Step):
            now = time.monotonic()
            self._pending = event, None if self._since is None else now - self._since
            self._since = now
            return
        self._since = None
        if isinstance(event, Evaluated):
            self._write(event.step, {f"valid/{name}": x for name, x in event.metrics.items()})
        with writing(self.folder, 0):
            self.writer.flush()

    def _write_pending(self) -> None:
        if self._pending is None:
            return
        (step, seconds), self._pending = self._pending, None
        scalars = {"loss": step.loss, "learning_rate": step.rate, "gradient_norm": step.norm}
        if len(step.losses) > 1:
            scalars |= {f"loss_{name}": loss for name, loss in step.losses.items()}
        if seconds:
            scalars["tokens_per_second"] = step.tokens * self.processes / seconds
        self._write(step.number, {f"train/{name}": value for name, value in scalars.items()})

    def _write(self, step: int, scalars: dict[str, float]) -> None:
        with writing(self.folder, 0):
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._write_pending()
        with writing(self.folder, 0):
            self.writer.close()
