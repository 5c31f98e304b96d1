"""`glassformer evaluate`: a model on the part of the data that its recipe holds out."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from glassformer.cli.common import grid
from glassformer.cli.training import DATA, JSON, RECIPE, ROOT
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.train.build import Place
    from glassformer.train.recipe import Recipe

USUAL = 4_096  # tokens in a row, where the recipe leaves it open


def run(
    model: str = typer.Argument(help="The model folder."),
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    as_json: bool = JSON,
) -> None:
    """Measure a model on the validation part of a recipe: loss, perplexity, accuracy."""
    from glassformer.train.recipe import read_recipe

    wanted = _of_model(read_recipe(recipe), model)
    root = data or Path(os.environ.get(ROOT, recipe.parent))
    from glassformer.train.build import Place

    with tempfile.TemporaryDirectory() as folder:
        figures = measure(wanted, Place(root, Path(folder), str(recipe)))
    if as_json:
        typer.echo(json.dumps({"model": model, "recipe": str(recipe), **figures}))
        return
    told = {name.replace("_", " "): f"{value:,.4f}" for name, value in figures.items()}
    told["answers"] = f"{figures['answers']:,.0f}"
    Console(highlight=False).print(grid(told))


def _of_model(recipe: Recipe, model: str) -> Recipe:
    """The recipe with this model and its tokenizer, one row after the other, nothing compiled."""
    from glassformer.checkpoint import read_configs
    from glassformer.train.recipe import FAMILY, Tokenize

    kind, wanted = read_configs(model)[1].kind, FAMILY[recipe.objective.kind][1]
    if kind != wanted:
        raise ConfigError(
            f"{model}: this model is for {kind}, and the recipe's objective.kind = "
            f"{recipe.objective.kind!r} needs one for {wanted}"
        )
    tokens = recipe.train.tokens
    tokens = max(USUAL, recipe.objective.length) if tokens == "auto" else tokens
    train = recipe.train.model_copy(update={"compile": False, "tokens": tokens})
    own = {"start": model, "model": {}, "tokenizer": Tokenize(), "train": train}
    return recipe.model_copy(update=own)


def measure(recipe: Recipe, place: Place) -> dict[str, float]:
    from glassformer.train.build import build_valid, held_out
    from glassformer.train.distributed import join
    from glassformer.train.evaluate import evaluate
    from glassformer.train.state import PRECISION

    world = join(recipe.train.device)
    task, rows = build_valid(recipe, place, world)
    figures = evaluate(task.to(PRECISION[recipe.train.precision]), rows, world)
    from_text = rows.objective.store.folder.is_relative_to(place.out)
    if recipe.objective.kind == "next_word" and from_text:
        size = sum(len(str(text).encode()) for text in held_out(recipe, place, "valid"))
        figures["bits_per_byte"] = figures["loss"] * figures["answers"] / math.log(2) / size
    return figures
