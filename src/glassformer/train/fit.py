"""A whole run, from the recipe to the saved model, in one call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from glassformer.data.run_paths import RunPaths
from glassformer.distributed import join
from glassformer.durable import write_whole
from glassformer.errors import GlassformerError, check_installed
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import RECIPE, as_toml, root_of
from glassformer.train.batch_size import memory_advice
from glassformer.train.build import Builder
from glassformer.train.run_dir import locked
from glassformer.train.setup import finish, resume
from glassformer.train.tensorboard import TensorBoardLogger
from glassformer.train.trainer import Event, Trainer


class Run:
    """A run whose folder is locked and whose parts are built: iterate over its events."""

    def __init__(self, trainer: Trainer, recipe: Recipe, log: Callable[[str], None]) -> None:
        self.trainer, self.log = trainer, log
        self.recipe = recipe  # with resolved fields: steps, tokens of a micro-batch …
        self.result: dict[str, Any] = {}  # filled after the last event

    def events(self) -> Iterator[Event]:
        """Train, or resume training, to the end; then write the model."""
        trainer, train = self.trainer, self.recipe.train
        resume(trainer, train, self.log)
        if trainer.world.is_main:
            write_whole(trainer.run_dir.folder / RECIPE, as_toml(self.recipe).encode())
        with _logger(trainer, train.tensorboard) as logger:
            try:
                for event in trainer.run():
                    if logger is not None:
                        logger.log(event)
                    yield event
            except torch.OutOfMemoryError:
                raise GlassformerError(out_of_memory(self.recipe)) from None
        self.result = finish(trainer, self.recipe)


@contextmanager
def open_run(recipe: Recipe, paths: RunPaths) -> Iterator[Run]:
    """Lock the run's folder, prepare the data and build the model."""
    if recipe.train.tensorboard:
        check_installed("train.tensorboard = true", "log", "tensorboard")
    world = join(recipe.train.device)
    recipe = recipe.model_copy(update={"root": str(paths.root.absolute())})
    try:
        with locked(paths.out) if world.is_main else nullcontext():
            builder = Builder(recipe, paths)
            trainer = builder.trainer(world)
            yield Run(trainer, builder.recipe, paths.log)
    finally:
        world.close()


def fit(
    recipe: str | Path,
    *,
    data: str | Path | None = None,
    out: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Iterator[Event]:
    """Train by a recipe; yields each step with its loss, each evaluation with its metrics, each
    checkpoint.

    recipe: a TOML file, or a run's folder. data: where the recipe's data is. out: the run's folder,
    runs/NAME if not given; the trained model is in its folder `model`, for `gf.load`. changes:
    single fields, as {"train.steps": 100}. An interrupted run is resumed by the same call.
    """
    path = Path(recipe)
    fields = {n: v if isinstance(v, str) else json.dumps(v) for n, v in (changes or {}).items()}
    resolved = read_recipe(path, fields)
    root = root_of(resolved, None if data is None else Path(data), path)
    folder = Path("runs") / resolved.name if out is None else Path(out)
    with open_run(resolved, RunPaths(root, folder, str(recipe))) as run:
        yield from run.events()


@contextmanager
def _logger(trainer: Trainer, enabled: bool) -> Iterator[TensorBoardLogger | None]:
    if not enabled or not trainer.world.is_main:
        yield None
        return
    folder = trainer.run_dir.folder / "tensorboard"
    logger = TensorBoardLogger(folder, trainer.state.progress.step, trainer.world.size)
    try:
        yield logger
    finally:
        logger.close()


def out_of_memory(recipe: Recipe) -> str:
    """The error message: what to change."""
    tokens, count = recipe.train.micro_batch_tokens, recipe.train.micro_batches
    half = tokens // 2 if isinstance(tokens, int) else 4096
    return (
        f"out of memory with train.micro_batch_tokens = {tokens}: lower it "
        f"(--train.micro_batch_tokens {half} --train.micro_batches {2 * count} trains the same), "
        f"or set {memory_advice(recipe.train)}"
    )
