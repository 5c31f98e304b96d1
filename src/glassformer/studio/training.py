"""A run of training, seen while it goes on: its losses, and its model at each checkpoint."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from fastapi import FastAPI, Request, Response

from glassformer.errors import CheckpointError, InputError
from glassformer.loaded import Model, load
from glassformer.recipe.toml import RECIPE
from glassformer.studio.answers import as_json
from glassformer.studio.jobs import JobQueue
from glassformer.studio.samples import Served, served
from glassformer.studio.schemas import Training
from glassformer.train.curves import Line, read
from glassformer.train.run_dir import STEP, checkpoints
from glassformer.train.state import TrainerState, read_trainer_state

MOST_OPEN = 3  # checkpoints in memory
MOST_POINTS = 600  # of a curve


def is_run(folder: Path) -> bool:
    try:
        return (folder / RECIPE).is_file() and (folder / "metrics.jsonl").is_file()
    except OSError:  # no name of a folder
        return False


def newest(folder: Path) -> Path:
    """The model of a run: its result, or, while it goes on, its last checkpoint."""
    steps = checkpoints(folder)
    if (folder / "model").is_dir():
        return folder / "model"
    if not steps:
        raise InputError(f"{folder}: this run has no checkpoint yet: try again later")
    return at_step(folder, steps[-1])


def step_of(model: Path) -> int | None:
    """The step whose weights these are; of a result, the one that was the best or the last."""
    found = STEP.fullmatch(model.name)
    if found is not None:
        return int(found[1])
    steps = checkpoints(model.parent)
    try:
        facts = read_trainer_state(at_step(model.parent, steps[-1])) if steps else TrainerState()
    except CheckpointError:
        return None
    return (facts.step if facts.best is None else facts.best_step) or None


def at_step(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:08d}"


class Opened:
    """The models of a few checkpoints, the last ones asked for."""

    def __init__(self) -> None:
        self.kept: OrderedDict[tuple[Path, int], Model] = OrderedDict()
        self.lock = Lock()

    def model(self, served: Served, step: int | None) -> Model:
        if step is None:
            return served.model
        if served.run is None or step not in checkpoints(served.run):
            raise InputError(f"step {step}: no such checkpoint is kept: choose another")
        with self.lock:
            key = (served.run, step)
            if key not in self.kept:
                device = next(served.model.parameters()).device
                self.kept[key] = load(at_step(*key), device=device)
            self.kept.move_to_end(key)
            while len(self.kept) > MOST_OPEN:
                self.kept.popitem(last=False)
            return self.kept[key]


def progress(folder: Path, step: int | None) -> Training:
    curve = read(folder)
    return Training(
        steps=checkpoints(folder),
        losses=_thinned(curve.train),
        evaluations=curve.valid,
        ended=(folder / "model").is_dir(),
        shown=step,
    )


def _thinned(line: Line) -> Line:
    """Every few of many points, and the last."""
    every = -(-len(line) // MOST_POINTS)
    return line[::every] + (line[-1:] if (len(line) - 1) % every else [])


def serve(app: FastAPI, models: Mapping[str, Served], desk: JobQueue) -> None:
    @app.get("/api/models/{id}/training")
    async def training(request: Request, id: str) -> Response:
        model = served(models, id)
        folder, step = model.run, model.step
        if folder is None:
            raise InputError("this model came without its training: open the folder of a run")
        return as_json(await desk.do(request, lambda _: progress(folder, step)))
