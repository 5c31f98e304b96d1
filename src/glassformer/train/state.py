"""The state of a run, and how it is saved and loaded."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import torch
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor

from glassformer.adapters import fixed_names
from glassformer.checkpoint import load_task
from glassformer.config import Count
from glassformer.errors import CheckpointError
from glassformer.fields import MOST_STEPS, TrainConfig
from glassformer.precision import compute_dtype
from glassformer.strictjson import parse_as
from glassformer.tasks import Task
from glassformer.tensor_files import open_tensors
from glassformer.train.optim.weights import Weights, frozen, named_state, optimisers, restore

OPTIMISER, TRAINER = "optimiser.safetensors", "trainer.json"
Steps = Annotated[int, Field(ge=0, le=MOST_STEPS)]
PRECISION = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass
class TrainerState:
    """The scalars of a run, as in trainer.json."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    step: Steps = 0  # steps done
    tokens: NonNegativeInt = 0  # tokens read
    rows: Count = 0  # of a step, so that the batches do not depend on the number of processes
    # The blocks of rows, each of one step, that a rollback skipped.
    skipped: list[Steps] = field(default_factory=list)
    rollbacks: Count = 0
    best: float | None = None  # the best value of train.best_by
    best_loss: float | None = None  # and the loss at that step
    best_step: Steps = 0
    worse: Count = 0  # evaluations since then
    usual: NonNegativeFloat = 0.0  # the usual gradient norm
    seconds: NonNegativeFloat = 0.0


class State:
    """A task with its master weights, optimisers and progress."""

    def __init__(
        self, task: Task, train: TrainConfig, progress: TrainerState | None = None
    ) -> None:
        self.task, self.train = task, train
        self.progress = progress or TrainerState(rows=train.micro_batches)
        frozen_names = set(frozen([name for name, _ in task.named_parameters()], train.freeze))
        self.fixed = fixed_names(task)
        for name, parameter in task.named_parameters():
            parameter.requires_grad_(name not in frozen_names | self.fixed)
        self.compute = compute_dtype(PRECISION[train.precision], task.device)
        self.weights = Weights(task, self.compute.dtype, self.fixed)
        self.optimisers = optimisers(self.weights, train)
        self.average: dict[str, Tensor] = {}
        if train.ema_decay:
            self.average = {n: p.detach().clone() for n, p in self.weights.masters.items()}
        # Built once: rebuilding these lists would slow down every step.
        self._averages = list(self.average.values())
        self._masters = [p.detach() for p in self.weights.masters.values()]

    @torch.no_grad()
    def update_average(self) -> None:
        """Update the moving average of the weights, if there is one."""
        if self.average:
            torch._foreach_lerp_(self._averages, self._masters, 1 - self.train.ema_decay)

    def finite(self) -> bool:
        """Whether all weights are finite."""
        checks = [p.isfinite().all() for p in self.weights.masters.values()]
        return bool(torch.stack(checks).all())

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the context, the task computes with the averaged weights, if there are any."""
        if not self.average:
            yield
            return
        parameters: list[Tensor] = [
            p for name, p in self.task.named_parameters() if name in self.average
        ]
        kept = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            torch._foreach_copy_(parameters, list(self.average.values()))
            yield
            torch._foreach_copy_(parameters, kept)

    def inference_task(self) -> Task:
        """The task with its weights for inference: float32, averaged if train.ema_decay is set."""
        if not self.average and not self.weights.copies:
            return self.task
        task = copy.deepcopy(self.task).float()
        values = self.average or self.weights.masters
        with torch.no_grad():
            for name, parameter in task.named_parameters():
                if name not in self.fixed:
                    parameter.copy_(values[name])
        return task

    def tensors(self) -> dict[str, Tensor]:
        """What a resumed run needs besides the weights for inference."""
        tensors = {
            f"{i}/{name}/{what}": value.detach()
            for i, optimiser in enumerate(self.optimisers)
            for name, what, value in named_state(optimiser)
        }
        if self.average or self.fixed:
            tensors |= {f"master/{n}": p.detach() for n, p in self.weights.masters.items()}
        if self.fixed:  # the weights for inference are merged with the model's
            tensors |= {f"average/{n}": p for n, p in self.average.items()}
        return {name: tensor.contiguous() for name, tensor in tensors.items()}

    def text(self) -> bytes:
        """The content of trainer.json."""
        return (json.dumps(asdict(self.progress), indent=2) + "\n").encode()

    def load(self, folder: Path) -> None:
        """Load a checkpoint into the same modules."""
        task, _ = load_task(folder)
        tensors = _optimiser_tensors(folder / OPTIMISER)
        progress = read_trainer_state(folder)
        try:
            self._restore(task, tensors)
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{folder}: is not of this run's model: {reason}") from None
        self.progress = progress

    def _restore(self, task: Task, tensors: dict[str, Tensor]) -> None:
        parameters = dict(task.named_parameters())
        with torch.no_grad():
            for kind, group in (("master", self.weights.masters), ("average", self.average)):
                for name, tensor in group.items():
                    key = f"{kind}/{name}"
                    tensor.copy_(tensors.pop(key) if key in tensors else parameters[name])
        self.weights.publish()
        for i, optimiser in enumerate(self.optimisers):
            states: dict[str, dict[str, Tensor]] = {}
            for key, tensor in tensors.items():
                number, name, what = key.split("/")
                if int(number) == i:
                    device = self.weights.masters[name].device
                    states.setdefault(name, {})[what] = tensor.to(device)
            restore(optimiser, states)


def read_trainer_state(folder: Path) -> TrainerState:
    """The scalars of a checkpoint."""
    path = folder / TRAINER
    try:
        return parse_as(TrainerState, path.read_bytes(), str(path))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None


def _optimiser_tensors(path: Path) -> dict[str, Tensor]:
    with open_tensors(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
