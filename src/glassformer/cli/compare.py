"""`glassformer compare`: the table and the picture of `gf.compare`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from glassformer.catalog import RUNS, find
from glassformer.cli.common import safe, size
from glassformer.cli.console import Console
from glassformer.cli.display import Display
from glassformer.cli.plot import check_picture, new_figure, save
from glassformer.cli.training import DATA, JSON, follow, opened, split_fields
from glassformer.errors import ConfigError
from glassformer.progress import duration

if TYPE_CHECKING:
    from glassformer.data.run_paths import RunPaths
    from glassformer.recipe.schema import Recipe
    from glassformer.train.compare_plan import Line
    from glassformer.train.fit import Run

FIGURE = "table.png"
LONGEST = 40  # characters of a name in the picture


def run(
    models: list[str] = typer.Argument(
        help="Presets (random weights), model folders, static vectors; and fields of the recipe "
        "with their values: --train.steps 100",
        metavar="MODEL",
    ),
    task: Path = typer.Option(..., help="A recipe: a TOML file, or a run's folder."),
    seeds: int | None = typer.Option(
        None, min=1, max=1_000, help="Runs of each model: 3 if not given, with --folds 1."
    ),
    folds: int | None = typer.Option(
        None, min=2, max=1_000, help="Hold out each of so many parts of the training data in turn."
    ),
    test: str | None = typer.Option(
        None, help="Data to report the metrics of; validation data only chooses the checkpoint."
    ),
    evaluate_only: bool = typer.Option(
        False, "--evaluate-only", help="Train nothing: the models have their heads."
    ),
    adapter: list[Path] = typer.Option(
        [],
        help="Of a single model: compare it also with this adapter, in PEFT's layout, merged "
        "into its weights. Write it once for each adapter.",
    ),
    data: Path | None = DATA,
    out: Path | None = typer.Option(None, help="Folder of the runs; runs/compare-NAME by default."),
    figure: Path | None = typer.Option(
        None, help=f"The picture: a .png or .svg file; {FIGURE} in --out by default."
    ),
    as_json: bool = JSON,
) -> None:
    """Fine-tune several models on one task, and compare them: mean ± standard deviation.

    compare --task sst2.toml bert-tiny bert-mini FOLDER FOLDER:random. A preset has random weights
    and the recipe's tokenizer; FOLDER:random is a folder's network and tokenizer with random
    weights. compare --task reviews.toml FOLDER --adapter A --adapter B --evaluate-only measures the
    model and its adapters as they are. Each run has a folder of its own. Finished runs are reused;
    interrupt the comparison at any time, and run the same command to resume. Memory is the peak of
    a GPU's tensors; on a CPU it is estimated as by --dry-run.
    """
    changes, names = split_fields(models)
    from glassformer.train.compare_plan import RANDOM

    for name in (model.removesuffix(RANDOM) for model in names):
        if not os.path.isdir(name):  # noqa: PTH112 - unlike Path's, it takes any string
            find(name)
    folder = out or RUNS / f"compare-{task.stem}"
    picture = _picture(figure, folder)
    from glassformer.train.compare import Hooks, compare

    with Display() as display:
        result = compare(
            names, task, seeds=seeds, folds=folds, test=test, evaluate_only=evaluate_only,
            adapters=adapter, data=data, out=folder, changes=changes,
            hooks=Hooks(display.report, _announce, _train),
        )  # fmt: skip
    if picture is not None:
        _paint(result.lines, result.metric, picture)
    if as_json:
        figure_path = None if picture is None else str(picture)
        typer.echo(json.dumps({**result.as_dict(), "figure": figure_path}))
        return
    Console(highlight=False).print(_table(result.lines, result.metric))
    typer.echo("  ".join(str(path) for path in (result.table, picture) if path is not None))


def _announce(line: str, seconds: float | None) -> None:
    left = "" if seconds is None else f"  {duration(seconds)} left"
    Console(stderr=True).print(Text.assemble((safe(line), "bold"), left), soft_wrap=True)


@contextmanager
def _train(recipe: Recipe, paths: RunPaths) -> Iterator[Run]:
    with opened(recipe, paths) as (run, display):
        follow(run, display)
        yield run


def _picture(figure: Path | None, out: Path) -> Path | None:
    """Where the picture goes, if it can be drawn; one that was asked for must be."""
    try:
        check_picture(figure or out / FIGURE)
    except ConfigError as error:
        if figure is not None:
            raise
        typer.echo(f"glassformer: {error}", err=True)
        return None
    return figure or out / FIGURE


def _table(lines: list[Line], metric: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("model", overflow="fold")
    for title in ("parameters", "seconds", "memory", metric.replace("_", " "), "runs"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            Text(safe(line.model)), f"{line.parameters:,}", f"{line.seconds:,.1f}",
            size(line.memory), _score(line, metric), f"{len(line.runs)}",
        )  # fmt: skip
    return table


def _score(line: Line, metric: str) -> str:
    deviation = line.deviations.get(metric)
    return f"{line.means[metric]:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def _paint(lines: list[Line], metric: str, out: Path) -> None:
    """A row for each model: its runs as points, their mean and deviation on top."""
    figure = new_figure(8, 1.2 + 0.6 * len(lines))
    axes = figure.subplots()
    for row, line in enumerate(lines):
        values = [run.metrics[metric] for run in line.runs]
        axes.plot(values, [row] * len(values), "o", color="C0", alpha=0.4)
        axes.errorbar(
            line.means[metric], row, xerr=line.deviations.get(metric, 0.0), fmt="D", color="C0",
            capsize=4,
        )  # fmt: skip
    short = [line.model if len(line.model) <= LONGEST else f"…{line.model[-LONGEST:]}"
             for line in lines]  # fmt: skip
    names = [f"{n}\n{x.parameters:,} parameters" for n, x in zip(short, lines, strict=True)]
    axes.set_yticks(range(len(lines)), names, parse_math=False)  # a folder may have a $
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set(xlabel=metric.replace("_", " "))
    axes.grid(alpha=0.3)
    save(figure, out)
