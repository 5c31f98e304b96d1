"""All that a run has to remember, and how it is written down and read back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from glassformer.checkpoint import load_task
from glassformer.errors import CheckpointError
from glassformer.fields import TrainConfig
from glassformer.precision import compute_dtype
from glassformer.strictjson import parse
from glassformer.tasks import Task
from glassformer.train.optim.weights import Weights, frozen, named_state, optimisers, restore

OPTIMISER, TRAINER = "optimiser.safetensors", "trainer.json"
PRECISION = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass
class TrainerState:
    """The plain numbers of a run, as trainer.json holds them."""

    step: int = 0  # how many are done
    tokens: int = 0  # how many were read
    rows: int = 0  # of a step: the same batches come whatever the number of processes
    skipped: list[int] = field(default_factory=list)  # steps' worth of rows that were bad
    rollbacks: int = 0
    best: float | None = None  # what train.best_by was at its best
    best_loss: float | None = None  # and the loss there
    best_step: int = 0
    worse: int = 0  # evaluations since then
    usual: float = 0.0  # the usual length of a gradient
    seconds: float = 0.0


class State:
    """A task with its masters, its optimisers and the progress."""

    def __init__(
        self, task: Task, train: TrainConfig, progress: TrainerState | None = None
    ) -> None:
        self.task, self.train = task, train
        self.progress = progress or TrainerState(rows=train.micro_batches)
        still = set(frozen([name for name, _ in task.named_parameters()], train.freeze))
        for name, parameter in task.named_parameters():
            parameter.requires_grad_(name not in still)
        self.compute = compute_dtype(PRECISION[train.precision], task.device)
        self.weights = Weights(task, self.compute.dtype)
        self.optimisers = optimisers(self.weights, train)
        self.average: dict[str, Tensor] = {}
        if train.ema_decay:
            self.average = {n: p.detach().clone() for n, p in self.weights.masters.items()}
        # The same lists in every step: a step has no time to make them.
        self._averages = list(self.average.values())
        self._followed = [p.detach() for p in self.weights.masters.values()]

    @torch.no_grad()
    def follow(self) -> None:
        """Move the average a little towards the weights."""
        if self.average:
            torch._foreach_lerp_(self._averages, self._followed, 1 - self.train.ema_decay)

    def finite(self) -> bool:
        """Is every weight a number?"""
        found = [p.isfinite().all() for p in self.weights.masters.values()]
        return bool(torch.stack(found).all())

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside, the task computes with the average, if there is one."""
        if not self.average:
            yield
            return
        parameters: list[Tensor] = [*self.task.parameters()]
        kept = [p.detach().clone() for p in parameters]
        with torch.no_grad():
            torch._foreach_copy_(parameters, list(self.average.values()))
            yield
            torch._foreach_copy_(parameters, kept)

    def inference_task(self) -> Task:
        """The task with the weights that one would use: in float32, averaged where asked for."""
        if not self.average and not self.weights.copies:
            return self.task
        whole = copy.deepcopy(self.task).float()
        values = self.average or self.weights.masters
        with torch.no_grad():
            for name, parameter in whole.named_parameters():
                parameter.copy_(values[name])
        return whole

    def tensors(self) -> dict[str, Tensor]:
        """What a resumed run needs beside the weights it would use."""
        found = {
            f"{i}/{name}/{what}": value.detach()
            for i, optimiser in enumerate(self.optimisers)
            for name, what, value in named_state(optimiser)
        }
        if self.average:
            found |= {f"master/{n}": p.detach() for n, p in self.weights.masters.items()}
        return {name: tensor.contiguous() for name, tensor in found.items()}

    def text(self) -> bytes:
        return (json.dumps(asdict(self.progress), indent=2) + "\n").encode()

    def load(self, folder: Path) -> None:
        """Go back to a checkpoint; the task's modules stay the same ones."""
        task, _ = load_task(folder)
        found = _optimiser_tensors(folder / OPTIMISER)
        given = dict(task.named_parameters())
        masters = {n: found.pop(f"master/{n}", given[n]) for n in self.weights.masters}
        with torch.no_grad():
            for name, master in self.weights.masters.items():
                master.copy_(masters[name])
            for name, average in self.average.items():
                average.copy_(given[name])
        self.weights.publish()
        for i, optimiser in enumerate(self.optimisers):
            states: dict[str, dict[str, Tensor]] = {}
            for key, tensor in found.items():
                number, name, what = key.split("/")
                if int(number) == i:
                    place = self.weights.masters[name].device
                    states.setdefault(name, {})[what] = tensor.to(place)
            restore(optimiser, states)
        self.progress = read_trainer_state(folder)


def read_trainer_state(folder: Path) -> TrainerState:
    path = folder / TRAINER
    try:
        return TrainerState(**parse(path.read_bytes(), str(path)))
    except (OSError, TypeError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None


def _optimiser_tensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except Exception as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None
