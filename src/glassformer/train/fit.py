"""A whole run, from the recipe to the saved model, in one call."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from glassformer.data.run_paths import RunPaths
from glassformer.distributed import join
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, GlassformerError, shown
from glassformer.loaded import Model, load
from glassformer.progress import progress_bar
from glassformer.recipe.paths import expanded, from_recipe, map_paths
from glassformer.recipe.schema import Recipe, read_recipe, recipe_from
from glassformer.recipe.toml import RECIPE, as_toml, root_of
from glassformer.train.adapter import ADAPTER, result_name
from glassformer.train.batch_size import memory_advice
from glassformer.train.build import Builder
from glassformer.train.loop import Step
from glassformer.train.run_dir import locked
from glassformer.train.setup import finish, resume
from glassformer.train.trackers import check_trackers
from glassformer.train.tracking import tracked
from glassformer.train.trainer import Event, Trainer

SHOWN_EVERY = 0.2  # seconds between two updates of a progress bar


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
        fields = self.recipe.model_dump(mode="json", exclude_none=True)
        with tracked(trainer, train.trackers, fields) as logger:
            try:
                for event in trainer.run():
                    logger.log(event)
                    yield event
            except torch.OutOfMemoryError:
                raise GlassformerError(out_of_memory(self.recipe)) from None
        self.result = finish(trainer, self.recipe)


@contextmanager
def open_run(recipe: Recipe, paths: RunPaths) -> Iterator[Run]:
    """Lock the run's folder, prepare the data and build the model."""
    check_trackers(recipe.train.trackers)
    world = join(recipe.train.device, group=recipe.distributed.shard == "full")
    recipe = recipe.model_copy(update={"root": str(paths.root.absolute())})
    try:
        with locked(paths.out) if world.is_main else nullcontext():
            builder = Builder(recipe, paths)
            trainer = builder.trainer(world)
            yield Run(trainer, builder.recipe, paths.log)
    finally:
        world.close()


class Training(Iterator[Event]):
    """A run that starts when the first of its events is asked for.

    Examples:
        >>> for event in gf.fit(recipe, changes={"train.steps": 2}):
        ...     if isinstance(event, gf.Step):
        ...         loss = event.loss
    """

    def __init__(self, recipe: Recipe, paths: RunPaths) -> None:
        self.recipe = recipe  # from the first event on with resolved fields, such as steps
        self.folder = paths.out  # the trained model is in its folder `model`
        self._events = self._run(paths)

    def _run(self, paths: RunPaths) -> Generator[Event, None, None]:
        with open_run(self.recipe, paths) as run:
            self.recipe = run.recipe
            yield from run.events()

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """Leave the run as it is; the same call resumes it after its last checkpoint.

        Examples:
            >>> training = gf.fit(recipe)
            >>> training.close()
        """
        self._events.close()

    def run(self, *, progress: bool = True) -> Model:
        """Train to the end, with a progress bar; returns the trained model.

        Examples:
            >>> model = gf.fit(recipe, changes={"train.steps": 2}).run(progress=False)
        """
        first = [event for event in (next(self, None),) if event is not None]
        done, last = 0, 0.0
        with progress_bar("train", self.recipe.train.steps, shown=progress) as advance:
            for event in chain(first, self):
                # Reading a loss waits for the GPU, so not every one is read.
                if isinstance(event, Step) and (now := time.monotonic()) > last + SHOWN_EVERY:
                    advance(event.number - done, f"loss {event.loss:.3f}")
                    done, last = event.number, now
            advance(self.recipe.train.steps - done, "")
        folder = self.folder / result_name(self.recipe)
        if folder.name == ADAPTER:
            return load(str(self.recipe.init_from), adapter=folder)
        return load(folder)


def fit(
    recipe: str | os.PathLike[str] | Recipe | Mapping[str, Any],
    *,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Training:
    """Train by a recipe: iterate over the steps, evaluations and checkpoints, or `run()` it.

    Args:
        recipe: a TOML file, a run's folder, a `Recipe`, or a dict of its fields
        data: where the recipe's data is; beside its file, or in the working directory, if not given
        out: the run's folder, runs/NAME if not given; the trained model is in its folder `model`
        changes: single fields, as {"train.steps": 100}

    An interrupted run is resumed by the same call.

    Examples:
        >>> model = gf.fit(recipe, out="runs/tiny", changes={"train.steps": 2}).run(progress=False)
    """
    path, resolved = _read(recipe, as_texts(changes))
    root = root_of(resolved, None if data is None else Path(data), path)
    folder = Path("runs") / resolved.name if out is None else expanded(out)
    return Training(resolved, RunPaths(root, folder, str(path)))


def _read(recipe: Any, changes: Mapping[str, str]) -> tuple[Path, Recipe]:
    """The recipe, and its file; that of a Python object would be in the working directory."""
    if isinstance(recipe, str | os.PathLike):
        return Path(recipe), read_recipe(Path(recipe), changes)
    if isinstance(recipe, Recipe):
        recipe = recipe.model_dump()
    if not isinstance(recipe, Mapping):
        raise ConfigError(f"fit({shown(recipe)}): give a TOML file, a gf.Recipe, or a dict")
    fields = map_paths(Recipe, deepcopy(dict(recipe)), from_recipe(Path.cwd()))
    return Path("recipe"), recipe_from(fields, changes, "recipe")


def as_texts(changes: Mapping[str, Any] | None) -> dict[str, str]:
    """Values of fields as a recipe spells them."""
    texts = {}
    for name, value in (changes or {}).items():
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value
        texts[name] = plain if isinstance(plain, str) else json.dumps(plain)
    return texts


def out_of_memory(recipe: Recipe) -> str:
    """The error message: what to change."""
    tokens, count = recipe.train.micro_batch_tokens, recipe.train.micro_batches
    half = tokens // 2 if isinstance(tokens, int) else 4096
    return (
        f"out of memory with train.micro_batch_tokens = {tokens}: lower it "
        f"(--train.micro_batch_tokens {half} --train.micro_batches {2 * count} trains the same), "
        f"or set {memory_advice(recipe.train)}"
    )
