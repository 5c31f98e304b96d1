"""MLflow, from the extra `mlflow`. MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME work as usual."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from glassformer.train.trackers.base import TrackedRun

TAG = "glassformer_run"


class MlflowTracker:
    def __init__(self, run: TrackedRun) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "glassformer")
        known = self.client.get_experiment_by_name(name)
        experiment = self.client.create_experiment(name) if known is None else known.experiment_id
        before = self.client.search_runs([experiment], f"tags.{TAG} = '{run.id}'", max_results=1)
        if before:
            self.id: str = before[0].info.run_id
            self.client.update_run(self.id, status="RUNNING")
            return
        created = self.client.create_run(experiment, tags={TAG: run.id}, run_name=run.name)
        self.id = created.info.run_id
        self.client.log_batch(self.id, params=[Param(*field) for field in run.fields.items()])

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in scalars.items()]
        self.client.log_batch(self.id, metrics=metrics)

    def flush(self) -> None:
        """It writes at once."""

    def rewind(self, step: int) -> None:
        """Steps that are repeated are logged again under the same number."""

    def close(self) -> None:
        self.client.set_terminated(self.id)
