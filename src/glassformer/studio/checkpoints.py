"""Folders of training runs: which model they hold, and models opened at a checkpoint."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock

from glassformer.errors import CheckpointError, InputError
from glassformer.loaded import Model, load
from glassformer.recipe.toml import RECIPE
from glassformer.studio.samples import ServedModel
from glassformer.train.run_dir import STEP, checkpoints
from glassformer.train.state import TrainerState, read_trainer_state

MAX_MODELS = 3  # checkpoints in memory


def is_run(folder: Path) -> bool:
    try:
        return (folder / RECIPE).is_file() and (folder / "metrics.jsonl").is_file()
    except OSError:  # not a possible folder name
        return False


def newest(folder: Path) -> Path:
    """The model folder of a run: its result, or its last checkpoint while it is training."""
    steps = checkpoints(folder)
    if (folder / "model").is_dir():
        return folder / "model"
    if not steps:
        raise InputError(f"{folder}: this run has no checkpoint yet: try again later")
    return at_step(folder, steps[-1])


def step_of(model: Path) -> int | None:
    """The training step of a model folder's weights, None if unknown.

    The result of a run has the weights of its best evaluation, or else of its last step.
    """
    match = STEP.fullmatch(model.name)
    if match is not None:
        return int(match[1])
    steps = checkpoints(model.parent)
    try:
        state = read_trainer_state(at_step(model.parent, steps[-1])) if steps else TrainerState()
    except CheckpointError:
        return None
    return (state.step if state.best is None else state.best_step) or None


def at_step(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:08d}"


class CheckpointModels:
    """The most recently used checkpoints, loaded."""

    def __init__(self) -> None:
        self.models: OrderedDict[tuple[Path, int], Model] = OrderedDict()
        self.lock = Lock()

    def model(self, served: ServedModel, step: int | None) -> Model:
        """The model at a checkpoint of its run; without a step, the served model itself."""
        if step is None:
            return served.model
        if served.run is None or step not in checkpoints(served.run):
            raise InputError(f"step {step}: there is no such checkpoint: choose another")
        with self.lock:
            key = (served.run, step)
            if key not in self.models:
                device = next(served.model.parameters()).device
                self.models[key] = load(at_step(*key), device=device)
            self.models.move_to_end(key)
            while len(self.models) > MAX_MODELS:
                self.models.popitem(last=False)
            return self.models[key]
