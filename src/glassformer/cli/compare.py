"""`glassformer compare`: several models on one task, each with several seeds, in one table."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import safe, size
from glassformer.cli.params import find
from glassformer.cli.plot import check_picture, new_figure, save
from glassformer.cli.training import DATA, JSON, open_run, run_to_end, sorted_out
from glassformer.errors import ConfigError
from glassformer.recipe.paths import expanded
from glassformer.recipe.toml import root_of

if TYPE_CHECKING:
    from glassformer.train.comparing import Line, Planned, Result
    from glassformer.train.documents import RunPaths

SEEDS = 3
TABLE, FIGURE = "table.csv", "table.png"
LONGEST = 40  # characters of a name in the picture


def run(
    models: list[str] = typer.Argument(
        help="Presets (fresh weights), model folders, static vectors; and fields of the recipe "
        "with their values: --train.steps 100",
        metavar="MODEL",
    ),
    task: Path = typer.Option(..., help="A recipe: a TOML file, or a run's folder."),
    seeds: int | None = typer.Option(
        None, min=1, help=f"Runs of each model: {SEEDS} if not given, with --folds 1."
    ),
    folds: int | None = typer.Option(
        None, min=2, help="Hold out each of so many parts of the training data in turn."
    ),
    test: str | None = typer.Option(
        None, help="Data to tell the figures of; the held-out part only chooses the weights."
    ),
    evaluate_only: bool = typer.Option(
        False, "--evaluate-only", help="Train nothing: the models have their heads."
    ),
    data: Path | None = DATA,
    out: Path | None = typer.Option(None, help="Where runs go; runs/compare-NAME if not given."),
    figure: Path | None = typer.Option(
        None, help=f"The picture: a .png or .svg file; {FIGURE} in --out if not given."
    ),
    as_json: bool = JSON,
) -> None:
    """Fine-tune several models on one task, and compare them: mean ± standard deviation.

    compare --task sst2.toml bert-tiny bert-mini FOLDER FOLDER:random. A preset has fresh weights,
    and the recipe's tokenizer; FOLDER:random is a folder's network with its tokenizer, and fresh
    weights. Each run has an ordinary folder; what is done is not done again, and a
    comparison that was broken off goes on by the same command. Memory is the most that tensors
    took on a GPU; on a CPU it is counted, as by --dry-run.
    """
    changes, names = sorted_out(models)
    from glassformer.train.comparing import RANDOM, as_csv, metric_of, plan, summary

    for name in (each.removesuffix(RANDOM) for each in names):
        if not os.path.isdir(name):  # noqa: PTH112 - unlike Path's, it takes any string
            find(name)
    _check_alone(names, evaluate_only, seeds)
    from glassformer.recipe.schema import recipe_fields

    fields = recipe_fields(task)
    out = expanded(out) if out else Path("runs") / f"compare-{task.stem}"
    times = None if evaluate_only else seeds or (SEEDS if folds is None else 1)
    runs = plan(names, fields, changes, str(task), out, times, folds, test)
    picture = _picture(figure, out)
    found = _all(runs, root_of(runs[0].recipe, data, task), str(task), evaluate_only)
    lines = summary([(each.model, result) for each, result in zip(runs, found, strict=True)])
    metric = metric_of(runs[0].recipe, lines[0].means)
    from glassformer.durable import write_whole

    write_whole(out / TABLE, as_csv(lines).encode())
    if picture is not None:
        _paint(lines, metric, picture)
    if as_json:
        typer.echo(json.dumps(_facts(runs, lines, metric, out / TABLE, picture)))
        return
    Console(highlight=False).print(_table(lines, metric))
    typer.echo("  ".join(str(each) for each in (out / TABLE, picture) if each is not None))


def _check_alone(names: list[str], evaluate_only: bool, seeds: int | None) -> None:
    from glassformer.presets import PRESETS
    from glassformer.train.comparing import RANDOM

    if not names:
        raise ConfigError("compare: write the models: compare --task RECIPE bert-tiny FOLDER")
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ConfigError("compare: it is one process: start it without torchrun")
    if not evaluate_only:
        return
    if seeds is not None:
        raise ConfigError("--seeds: with --evaluate-only there is no chance: leave one of them out")
    for name in names:
        if name in PRESETS or name.endswith(RANDOM):
            raise ConfigError(
                f"{name}: fresh weights know nothing: write a model folder, or leave out "
                "--evaluate-only"
            )


def _picture(figure: Path | None, out: Path) -> Path | None:
    """Where it goes, if it can be drawn; one that was asked for must be."""
    try:
        check_picture(figure or out / FIGURE)
    except ConfigError as error:
        if figure is not None:
            raise
        typer.echo(f"glassformer: {error}", err=True)
        return None
    return figure or out / FIGURE


def _all(runs: list[Planned], root: Path, source: str, evaluate_only: bool) -> list[Result]:
    """First it is made sure that all can be run, then those are run that were not before."""
    from glassformer.cli.evaluate import lines_told, of_model
    from glassformer.train.documents import RunPaths
    from glassformer.train.results import check, keep

    found, place = [], RunPaths(root, Path(), source, lines_told())
    if evaluate_only:
        for each in runs:
            of_model(each.recipe, each.model)
    known = [check(each, place) for each in runs]
    for number, (each, result) in enumerate(zip(runs, known, strict=True), 1):
        done = "" if result is None else ": it is done"
        told = f"{safe(each.model)}, {each.what} ({number} of {len(runs)}){done}"
        Console(stderr=True).print(Text(told, "bold"), soft_wrap=True)
        if result is None:
            result = (_evaluate if evaluate_only else _train)(each, place)
            keep(each, place, result)
        found.append(result)
    return found


def _train(planned: Planned, place: RunPaths) -> Result:
    """An ordinary run, to its end."""
    import torch

    from glassformer.cli.dry_run import memory
    from glassformer.train.comparing import Result

    if planned.recipe.train.compile:
        torch.compiler.reset()  # the models before it are no reason to compile this one less
    _forget_peak()
    with open_run(planned.recipe, place.source, place.root, planned.folder) as (session, show):
        figures = _told_of(run_to_end(session, show)["valid"])
        state = session.state
        parameters = sum(p.numel() for p in state.task.parameters())
        taken = _peak(session.world.device.type) or memory(session, show.recipe)["total"]
        seconds = state.facts.seconds
    if planned.test is not None:
        figures = _measured(planned, place, planned.folder / "model")
    return Result(parameters, seconds, taken, figures)


def _evaluate(planned: Planned, place: RunPaths) -> Result:
    """The model as it is."""
    from glassformer.checkpoint import read_configs
    from glassformer.sizes import measure
    from glassformer.train.comparing import Result

    _forget_peak()
    began = time.monotonic()
    figures = _measured(planned, place, Path(planned.model))
    seconds = time.monotonic() - began
    parameters = measure(*read_configs(planned.model)).with_head
    width = 2 if planned.recipe.train.precision == "bfloat16" else 4
    taken = _peak(planned.recipe.train.device) or width * parameters
    return Result(parameters, seconds, taken, figures)


def _measured(planned: Planned, place: RunPaths, model: Path) -> dict[str, float]:
    from glassformer.cli.evaluate import measure, of_model

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = measure(of_model(planned.measuring, str(model)), replace(place, out=Path(folder)))
    return _told_of(found)


def _told_of(found: dict[str, Any]) -> dict[str, float]:
    """Figures, and not how many answers they are of."""
    return {n: x for n, x in found.items() if isinstance(x, float) and n != "answers"}


def _forget_peak() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> int:
    """The most that tensors took at once; on a CPU nobody counts."""
    import torch

    there = device in ("auto", "cuda") and torch.cuda.is_available()
    return torch.cuda.max_memory_allocated() if there else 0


def _table(lines: list[Line], metric: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("model", overflow="fold")
    for title in ("parameters", "seconds", "memory", metric.replace("_", " "), "runs"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            Text(safe(line.model)), f"{line.parameters:,}", f"{line.seconds:,.1f}",
            size(line.memory), _told(line, metric), f"{len(line.runs)}",
        )  # fmt: skip
    return table


def _told(line: Line, metric: str) -> str:
    deviation = line.deviations.get(metric)
    return f"{line.means[metric]:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def _facts(
    runs: list[Planned], lines: list[Line], metric: str, table: Path, picture: Path | None
) -> dict[str, Any]:
    models = []
    for line in lines:
        mine = [each for each in runs if each.model == line.model]
        told = [
            {"folder": str(each.folder), "what": each.what, **asdict(result)}
            for each, result in zip(mine, line.runs, strict=True)
        ]
        models.append({**asdict(line), "runs": told})
    where = {"table": str(table), "figure": None if picture is None else str(picture)}
    return {"metric": metric, "models": models, **where}


def _paint(lines: list[Line], metric: str, out: Path) -> None:
    """A row a model: each run a point, their mean and deviation on top of them."""
    figure = new_figure(8, 1.2 + 0.6 * len(lines))
    axes = figure.subplots()
    for row, line in enumerate(lines):
        values = [each.figures[metric] for each in line.runs]
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
