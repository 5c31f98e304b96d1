"""`glassformer pretrain` and `finetune`: one loop, from random weights or from a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.catalog import RUNS
from glassformer.cli.display import Display
from glassformer.cli.stop_signals import StopSignals
from glassformer.errors import ConfigError
from glassformer.recipe.field_names import field_names, hint
from glassformer.recipe.paths import data_path
from glassformer.recipe.toml import ROOT, root_of

if TYPE_CHECKING:
    from glassformer.data.run_paths import RunPaths
    from glassformer.recipe.schema import Recipe
    from glassformer.train.fit import Run

# Short names of fields.
ALSO = {
    "encoding": "data.encoding",
    "max_tokens": "train.micro_batch_tokens",
    "on_truncate": "objective.on_truncate",
    "skip_bad": "data.skip_bad",
}
FLAGS = ("skip_bad",)  # take no value
RECIPE = typer.Argument(help="A recipe: a TOML file, or a run's folder.", metavar="RECIPE")
DATA = typer.Option(None, "--data", help=f"Where the recipe's data lies (or set {ROOT}).")
OUT = typer.Option(None, "--out", help="The run's folder; runs/NAME by default.")
DRY = typer.Option(False, "--dry-run", help="Describe the run, and stop.")
JSON = typer.Option(False, "--json", help="Print JSON.")


def pretrain(
    context: typer.Context,
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    out: Path | None = OUT,
    dry_run: bool = DRY,
    as_json: bool = JSON,
) -> None:
    """Train a model from random weights. Any field of the recipe can be set: --train.steps 100.

    --max-tokens auto takes the largest micro-batch that fits; --on-truncate error stops if a text
    is longer than objective.length. Interrupt it at any time; run the same command to resume.
    """
    from glassformer.recipe.schema import read_recipe

    resolved = read_recipe(recipe, fields_of(context.args))
    _run(resolved, str(recipe), root_of(resolved, data, recipe), out, dry_run, as_json)


def finetune(
    context: typer.Context,
    model: str = typer.Argument(help="The model to start from: a folder, or a name."),
    recipe: str | None = typer.Argument(
        None, help="A recipe, or a run's folder.", metavar="[RECIPE]"
    ),
    objective: str | None = typer.Option(
        None, help="Without a recipe: classification, token_classification, question_answering or "
        "sentence_embedding.",
    ),
    data: str | None = DATA,
    out: Path | None = OUT,
    dry_run: bool = DRY,
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """Continue training a model with its own tokenizer. Fields are set as in pretrain.

    Without a recipe, for labelled data: finetune MODEL --objective classification --data train.tsv
    (CoNLL files for token_classification, SQuAD files for question_answering, pairs of texts for
    sentence_embedding), or the address of such a file. A tenth of it is held out. --skip-bad counts
    unusable rows instead of stopping.
    """
    words = context.args
    if recipe is not None and recipe.startswith("--"):  # there is none: this is the first field
        words, recipe = [recipe, *words], None
    changes = fields_of(words)
    if objective is None and recipe is not None:
        from glassformer.recipe.schema import read_recipe

        path = Path(recipe)
        resolved = read_recipe(path, changes | {"init_from": model})
        root = root_of(resolved, None if data is None else Path(data), path)
        _run(resolved, recipe, root, out, dry_run, as_json)
    elif objective is not None and recipe is None and data is not None:
        from glassformer.recipe.short_form import short_recipe

        source = data_path(data)
        resolved = short_recipe(objective, model, source, changes)
        _run(resolved, f"finetune {objective}", Path(source).parent, out, dry_run, as_json)
    else:
        raise ConfigError(
            "write finetune MODEL RECIPE, or finetune MODEL --objective classification --data FILE"
        )


def fields_of(words: list[str]) -> dict[str, str]:
    """`--train.steps 100` and `--train.steps=100`."""
    fields, others = split_fields(words)
    if others:
        raise ConfigError(
            f"{others[0]}: unexpected word: fields of the recipe are written as --train.steps 100"
        )
    return fields


def split_fields(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Fields with their values, and all other words."""
    fields, others, rest = {}, [], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        field = name[2:].replace("-", "_")
        if field in FLAGS and not equals:
            equals, value = "=", "true"
        if not name.startswith("--"):
            others.append(word)
            continue
        field = ALSO.get(field, field)
        if field not in field_names():
            raise ConfigError(f"{name}: there is no such option or field: {hint(field, '--')}")
        if not equals and not rest:
            raise ConfigError(f"{name}: its value is missing: write {name} VALUE")
        fields[field] = value if equals else rest.pop(0)
    return fields, others


def _run(
    recipe: Recipe, source: str, root: Path, out: Path | None, dry: bool, as_json: bool
) -> None:
    from glassformer.data.run_paths import RunPaths

    folder = out or RUNS / recipe.name
    with opened(recipe, RunPaths(root, folder, source)) as (run, display):
        if dry:
            from glassformer.cli.dry_run import show
            from glassformer.train.dry_run import describe

            if not display.quiet:
                show(describe(run), as_json)
            return
        follow(run, display)
    if not display.quiet:
        _print_result(run.result, as_json)


@contextmanager
def opened(recipe: Recipe, paths: RunPaths) -> Iterator[tuple[Run, Display]]:
    """A run that is ready to train, with a display of its own; only the main process shows it."""
    from glassformer.train.fit import open_run
    from glassformer.train.trainer import Interrupted

    StopSignals(paths.out)
    with Display(quiet=int(os.environ.get("RANK", 0)) != 0) as display:
        try:
            with open_run(recipe, replace(paths, report=display.report)) as run:
                yield run, display
        except KeyboardInterrupt:  # while preparing: a run that trains is asked to stop instead
            line = f"{paths.out}: interrupted before the first step: run the same command to resume"
            raise Interrupted(line) from None


def follow(run: Run, display: Display) -> None:
    """Train to the end, and show every event; a signal asks the run to save and stop."""
    signals = StopSignals(run.trainer.run_dir.folder, training=True)
    run.trainer.stop = lambda: signals.stop_requested
    for number, event in enumerate(run.events()):
        if number == 0:
            display.begin(run)
        display.show(event)


def _print_result(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result))
        return
    metrics = "  ".join(f"{n} {value:.4g}" for n, value in (result.get("valid") or {}).items())
    typer.echo(f"{result['model']}  {metrics}")
