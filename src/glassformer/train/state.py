"""The state of a run, and how it is saved and loaded."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import torch
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor, nn

from glassformer.adapters import fixed_names
from glassformer.checkpoint import load_task
from glassformer.checkpoint.sharded import is_sharded
from glassformer.config import Count
from glassformer.distributed import DistributedContext
from glassformer.errors import CheckpointError
from glassformer.fields import MOST_STEPS, TrainConfig
from glassformer.precision import compute_dtype
from glassformer.strictjson import parse_as
from glassformer.tasks import Task
from glassformer.tensor_files import open_tensors
from glassformer.train.optim.weights import Weights, frozen, named_state, optimisers, restore
from glassformer.train.parallel.base import ParallelWeights
from glassformer.train.parallel.mode import Mode

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
        self, task: Task, train: TrainConfig, progress: TrainerState | None = None, *,
        mode: Mode = "plain", world: DistributedContext | None = None,
    ) -> None:  # fmt: skip
        self.task, self.train = task, train
        self.progress = progress or TrainerState(rows=train.micro_batches)
        frozen_names = set(frozen([name for name, _ in task.named_parameters()], train.freeze))
        self.fixed = fixed_names(task)
        for name, parameter in task.named_parameters():
            parameter.requires_grad_(name not in frozen_names | self.fixed)
        self.compute = compute_dtype(PRECISION[train.precision], task.device)
        self.weights = _weights(task, self.compute.dtype, mode, world, self.fixed)
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

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within the context, the task computes with the averaged weights, if there are any."""
        if not self.average:
            yield
            return
        parameters = self.weights.parameters
        kept = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            torch._foreach_copy_(parameters, list(self.average.values()))
            self.weights.refresh()
            yield
            torch._foreach_copy_(parameters, kept)
            self.weights.refresh()

    def inference_task(self) -> Task:
        """The task with its weights for inference: float32, averaged if train.ema_decay is set.

        Sharded weights are gathered: all processes call this, and only the main one gets them.
        """
        values = self.average or self.weights.masters
        if self.weights.outline is not None:
            from glassformer.train.parallel.sharded import ShardedWeights

            assert isinstance(self.weights, ShardedWeights)  # noqa: S101
            whole = self.weights.whole({**self.weights.fixed, **values})
            return _filled(self.weights.outline, whole)
        if not self.average and not self.weights.copies:
            return self.task
        task = copy.deepcopy(self.task).float()
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

    def shares(self) -> dict[str, Tensor]:
        """All that a resumed run needs, of sharded weights: what this process has of it."""
        averages = {f"average/{name}": tensor for name, tensor in self.average.items()}
        masters = {f"master/{n}": p.detach() for n, p in self.weights.masters.items()}
        return {**self.tensors(), **averages, **masters}

    def load(self, folder: Path) -> None:
        """Load a checkpoint into the same modules."""
        progress = read_trainer_state(folder)
        try:
            if is_sharded(folder):
                self._restore(self._read_sharded(folder))
            else:
                self._restore(self._read(folder))
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{folder}: is not of this run's model: {reason}") from None
        self.progress = progress

    def _read(self, folder: Path) -> dict[str, Tensor]:
        """A model folder with an optimiser: this process's part of its tensors."""
        task, _ = load_task(folder)
        tensors = _optimiser_tensors(folder / OPTIMISER)
        parameters = {name: p.detach() for name, p in task.named_parameters()}
        for kind, names in (("master", self.weights.masters), ("average", self.average)):
            for name in names:
                key = f"{kind}/{name}"
                if key not in tensors:
                    tensors[key] = parameters[name]
        return {key: self.weights.share(key.split("/")[1], t) for key, t in tensors.items()}

    def _read_sharded(self, folder: Path) -> dict[str, Tensor]:
        from glassformer.train.parallel.checkpoint import read_sharded

        return read_sharded(folder, self.weights)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for kind, targets in (("master", self.weights.masters), ("average", self.average)):
                for name, target in targets.items():
                    target.copy_(tensors.pop(f"{kind}/{name}"))
        self.weights.publish()
        for i, optimiser in enumerate(self.optimisers):
            states: dict[str, dict[str, Tensor]] = {}
            for key, tensor in tensors.items():
                number, name, what = key.split("/")
                if int(number) == i:
                    device = self.weights.masters[name].device
                    states.setdefault(name, {})[what] = tensor.to(device)
            restore(optimiser, states)


def _weights(
    task: Task,
    dtype: torch.dtype,
    mode: Mode,
    world: DistributedContext | None,
    fixed: Collection[str],
) -> Weights | ParallelWeights:
    if mode == "plain" or world is None:
        return Weights(task, dtype, fixed)
    if mode == "replicated":  # imported where they are needed: they import torch's compiler
        from glassformer.train.parallel.replicated import ReplicatedWeights

        return ReplicatedWeights(task, dtype, world, fixed)
    from glassformer.train.parallel.sharded import ShardedWeights

    return ShardedWeights(task, dtype, world, fixed)


def _filled(outline: Task, tensors: Mapping[str, Tensor]) -> Task:
    """A copy of the task with these weights; those without a value stay empty."""
    task = copy.deepcopy(outline)
    for name, tensor in tensors.items():
        place, _, leaf = name.rpartition(".")
        setattr(task.get_submodule(place), leaf, nn.Parameter(tensor))
    return task


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
