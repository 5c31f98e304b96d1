"""Curves for TensorBoard, from the extra `log`, in the run's folder.

A run that is resumed or rolled back hides the points of the steps that it repeats.
"""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.durable import writing
from glassformer.train.trackers.base import TrackedRun


class TensorBoardTracker:
    def __init__(self, run: TrackedRun) -> None:
        self.folder = run.folder / "tensorboard"
        self._open(run.done)

    def _open(self, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with writing(self.folder, 0):
            self.writer = SummaryWriter(str(self.folder), purge_step=done + 1)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        with writing(self.folder, 0):
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, step)

    def flush(self) -> None:
        with writing(self.folder, 0):
            self.writer.flush()

    def rewind(self, step: int) -> None:
        self.close()
        self._open(step)

    def close(self) -> None:
        with writing(self.folder, 0):
            self.writer.close()
