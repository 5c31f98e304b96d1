"""Weights & Biases, from the extra `wandb`. WANDB_PROJECT and WANDB_MODE work as usual."""

from __future__ import annotations

import os
from collections.abc import Mapping

from glassformer.train.trackers.base import TrackedRun


class WandbTracker:
    def __init__(self, run: TrackedRun) -> None:
        import wandb

        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "glassformer"), name=run.name, id=run.id,
            resume="allow", dir=str(run.folder), config=dict(run.fields), allow_val_change=True,
        )  # fmt: skip
        # An axis of our own: that of the library cannot go back.
        self.run.define_metric("*", step_metric="step")

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self.run.log({"step": step, **scalars})

    def flush(self) -> None:
        """It writes by itself."""

    def rewind(self, step: int) -> None:
        """Steps that are repeated are logged again under the same number."""

    def close(self) -> None:
        self.run.finish()
