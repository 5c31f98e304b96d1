"""What the routes share: the models, the recorded runs, the job queue and opened checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glassformer.studio.checkpoints import CheckpointModels
from glassformer.studio.guard import no_model
from glassformer.studio.jobs import JobQueue
from glassformer.studio.runs import RecordedRuns
from glassformer.studio.samples import ServedModel


@dataclass(frozen=True, eq=False)
class StudioState:
    models: Mapping[str, ServedModel]  # by their ids
    runs: RecordedRuns = field(default_factory=RecordedRuns)
    jobs: JobQueue = field(default_factory=JobQueue)
    checkpoints: CheckpointModels = field(default_factory=CheckpointModels)

    def served(self, id: str) -> ServedModel:
        """The model of this id; refused with 404 if there is none."""
        if id not in self.models:
            raise no_model()
        return self.models[id]
