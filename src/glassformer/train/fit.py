"""A whole run: opened, pursued to its end and written down. From Python it is one call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from glassformer.distributed import DistributedContext, join
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import root_of
from glassformer.train.build import build_session
from glassformer.train.documents import RunPaths
from glassformer.train.run_dir import locked
from glassformer.train.setup import finish, ready
from glassformer.train.trainer import Event, Trainer


@contextmanager
def opened(
    recipe: Recipe, place: RunPaths, world: DistributedContext
) -> Iterator[tuple[Trainer, Recipe]]:
    """A run that is ready to learn, or to go on; nobody else is in its folder. In the recipe that
    comes with it tokens and steps are found."""
    recipe = recipe.model_copy(update={"root": str(place.root.absolute())})
    try:
        with locked(place.out) if world.is_main else nullcontext():
            session = build_session(recipe, place, world)
            yield session, recipe.model_copy(update={"train": session.state.train})
    finally:
        world.close()


def fit(
    recipe: str | Path,
    *,
    data: str | Path | None = None,
    out: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Iterator[Event]:
    """Train by a recipe. Yields what happens: each step with its loss, each evaluation with its
    figures, each checkpoint; `changes` are single fields, as {"train.steps": 100}.

    At the end the model is in `out`/model (runs/NAME/model, if `out` is not given) for `gf.load`. A
    run that was broken off goes on by the same call.
    """
    path = Path(recipe)
    fields = {n: v if isinstance(v, str) else json.dumps(v) for n, v in (changes or {}).items()}
    read = read_recipe(path, fields)
    root = root_of(read, None if data is None else Path(data), path)
    place = RunPaths(root, Path("runs") / read.name if out is None else Path(out), str(recipe))
    with opened(read, place, join(read.train.device)) as (session, found):
        ready(session, found, place.say)
        yield from session.pursue()
        finish(session, found)
