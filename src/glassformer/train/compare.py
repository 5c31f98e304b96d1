"""`gf.compare`: several models on one task, each with several seeds, in one table."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoint import read_configs
from glassformer.data.run_paths import Report, RunPaths
from glassformer.durable import write_whole
from glassformer.errors import ConfigError
from glassformer.loaded import load
from glassformer.objectives import objective_of
from glassformer.presets import PRESETS
from glassformer.recipe.paths import expanded
from glassformer.recipe.schema import Recipe, recipe_fields
from glassformer.recipe.toml import root_of
from glassformer.sizes import measure as count_parameters
from glassformer.train.adapter import ADAPTER, result_name
from glassformer.train.compare_plan import (
    RANDOM,
    Line,
    PlannedRun,
    RunResult,
    as_csv,
    folder_names,
    metric_of,
    plan,
    summary,
)  # fmt: skip
from glassformer.train.compare_results import check, keep
from glassformer.train.dry_run import memory
from glassformer.train.evaluation import measure, merged_folder, recipe_for
from glassformer.train.fit import Run, open_run

SEEDS = 3
TABLE = "table.csv"
MERGED = "merged"  # a model with its adapter, beside its runs


@dataclass(frozen=True)
class Comparison:
    """One line for each model; `metric` is the one that the models are compared by."""

    lines: list[Line]
    metric: str
    table: Path  # a CSV file with all metrics
    runs: list[PlannedRun]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: every line, with the folder and label of each run."""
        models = []
        for line in self.lines:
            planned = [run for run in self.runs if run.model == line.model]
            runs = [
                {"folder": str(run.folder), "label": run.label, **asdict(result)}
                for run, result in zip(planned, line.runs, strict=True)
            ]
            models.append({**asdict(line), "runs": runs})
        return {"metric": self.metric, "models": models, "table": str(self.table)}


@contextmanager
def train(recipe: Recipe, paths: RunPaths) -> Iterator[Run]:
    """A run that was trained to its end."""
    with open_run(recipe, paths) as run:
        deque(run.events(), maxlen=0)
        yield run


@dataclass(frozen=True)
class Hooks:
    """What a caller may watch: lines about the data, the start of each run (with the seconds that
    all runs still take, once one is finished), and its training."""

    report: Report = lambda line, progress: None
    start: Callable[[str, float | None], None] = lambda line, seconds_left: None
    train: Callable[[Recipe, RunPaths], AbstractContextManager[Run]] = train


def compare(
    models: Sequence[str],
    recipe: str | Path,
    *,
    seeds: int | None = None,
    folds: int | None = None,
    test: str | None = None,
    evaluate_only: bool = False,
    adapters: Sequence[str | Path] = (),
    data: str | Path | None = None,
    out: str | Path | None = None,
    changes: Mapping[str, str] | None = None,
    hooks: Hooks | None = None,
) -> Comparison:
    """Fine-tune several models on one task: mean and standard deviation of its metrics.

    models: presets (random weights and the recipe's tokenizer), model folders, files of static
    vectors; FOLDER:random is a folder's network and tokenizer with random weights. recipe: a TOML
    file, or a run's folder. seeds: runs of each model, 3 if not given, with folds 1. folds:
    parts of the training data, each held out in turn. test: data to report the metrics of.
    evaluate_only: train nothing. adapters: of a single model: compare it also with each of these
    merged into its weights; with evaluate_only, a model whose head is for another task is left out.
    out: the folder of the runs. Finished runs are reused, and an interrupted comparison is resumed
    by the same call.
    """
    hooks = hooks or Hooks()
    _check(models, seeds, adapters, evaluate_only=evaluate_only)
    path = Path(recipe)
    folder = expanded(Path(out)) if out else Path("runs") / f"compare-{path.stem}"
    runs_per_model = None if evaluate_only else seeds or (SEEDS if folds is None else 1)
    merged = [f"{models[0]} with {adapter}" for adapter in adapters]
    names = [*models, *merged]
    folders = folder_names(names)
    places = [str(folder / name / MERGED) for name in folders[len(models) :]]
    weights = dict(zip(names, [*models, *places], strict=True))
    runs = plan(
        weights, recipe_fields(path), changes or {}, str(recipe), folder, runs_per_model, folds,
        test,
    )  # fmt: skip
    for adapter, place in zip(adapters, places, strict=True):
        load(models[0], adapter=adapter).merge_adapter().save(place)
    if adapters and evaluate_only and _head(models[0]) != objective_of(runs[0].recipe).task:
        hooks.report(
            f"{models[0]}: without an adapter it is for {_head(models[0])}: left out", None
        )
        runs = [run for run in runs if run.model in merged]
    root = root_of(runs[0].recipe, None if data is None else Path(data), path)
    paths = RunPaths(root, Path(), str(recipe), hooks.report)
    results = _results(runs, paths, hooks, evaluate_only=evaluate_only)
    pairs = [(run.model, result) for run, result in zip(runs, results, strict=True)]
    lines = summary(pairs)
    write_whole(folder / TABLE, as_csv(lines).encode())
    return Comparison(lines, metric_of(runs[0].recipe, lines[0].means), folder / TABLE, runs)


def _check(
    models: Sequence[str], seeds: int | None, adapters: Sequence[str | Path], *, evaluate_only: bool
) -> None:
    if not models:
        raise ConfigError("compare: write the models: compare --task RECIPE bert-tiny FOLDER")
    if adapters and (len(models) > 1 or models[0] in PRESETS or models[0].endswith(RANDOM)):
        raise ConfigError(
            f"--adapter {adapters[0]}: it belongs to one trained model: write that model alone"
        )
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise ConfigError("compare: runs in one process: start it without torchrun")
    if not evaluate_only:
        return
    if seeds is not None:
        raise ConfigError("--seeds: --evaluate-only is not random: leave one of them out")
    for name in models:
        if name in PRESETS or name.endswith(RANDOM):
            raise ConfigError(
                f"{name}: random weights have learnt nothing: write a model folder, or leave out "
                "--evaluate-only"
            )


def _results(
    runs: Sequence[PlannedRun], paths: RunPaths, hooks: Hooks, *, evaluate_only: bool
) -> list[RunResult]:
    """All runs are checked first; then those that are not finished are run."""
    if evaluate_only:
        for run in runs:
            recipe_for(run.recipe, run.weights)
    finished = [check(run, paths) for run in runs]
    results: list[RunResult] = []
    for number, (run, result) in enumerate(zip(runs, finished, strict=True), 1):
        done = "" if result is None else ": finished"
        hooks.start(
            f"{run.model}, {run.label} ({number} of {len(runs)}){done}",
            _seconds_left(results, finished[number - 1 :]),
        )
        if result is None:
            result = _evaluate(run, paths) if evaluate_only else _train(run, paths, hooks)
            keep(run, paths, result)
        results.append(result)
    return results


def _seconds_left(
    results: Sequence[RunResult], waiting: Sequence[RunResult | None]
) -> float | None:
    """As long as the mean of the runs so far for each that is not finished."""
    unfinished = sum(result is None for result in waiting)
    if not results or not unfinished:
        return None
    return unfinished * sum(result.seconds for result in results) / len(results)


def _train(planned: PlannedRun, paths: RunPaths, hooks: Hooks) -> RunResult:
    """An ordinary run, from start to end."""
    if planned.recipe.train.compile:
        torch.compiler.reset()  # earlier models must not count towards the recompile limit
    _reset_peak()
    place = RunPaths(paths.root, planned.folder, paths.source, paths.report)
    with hooks.train(planned.recipe, place) as run:
        state = run.trainer.state
        parameters = sum(p.numel() for p in state.task.parameters())
        peak_memory = (
            _peak(run.trainer.world.device.type) or memory(run.trainer, run.recipe)["total"]
        )
        metrics, seconds = _floats(run.result["valid"]), state.progress.seconds
    if planned.test is not None:
        metrics = _measure_result(planned, paths)
    return RunResult(parameters, seconds, peak_memory, metrics)


def _evaluate(planned: PlannedRun, paths: RunPaths) -> RunResult:
    """The model as it is."""
    _reset_peak()
    start = time.monotonic()
    metrics = _measure(planned, paths, planned.weights)
    seconds = time.monotonic() - start
    parameters = count_parameters(*read_configs(planned.weights)).with_head
    width = 2 if planned.recipe.train.precision == "bfloat16" else 4
    peak_memory = _peak(planned.recipe.train.device) or width * parameters
    return RunResult(parameters, seconds, peak_memory, metrics)


def _measure_result(planned: PlannedRun, paths: RunPaths) -> dict[str, float]:
    """What a run has trained: a model, or an adapter for the initial one."""
    folder = planned.folder / result_name(planned.recipe)
    if folder.name != ADAPTER:
        return _measure(planned, paths, str(folder))
    with merged_folder(str(planned.recipe.init_from), folder) as model:
        return _measure(planned, paths, model)


def _measure(planned: PlannedRun, paths: RunPaths, model: str) -> dict[str, float]:
    return _floats(measure(recipe_for(planned.measuring, model), paths))


def _head(model: str) -> str:
    """The task that a model has a head for."""
    return read_configs(model)[1].kind


def _floats(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics, without the number of labels."""
    return {n: x for n, x in metrics.items() if isinstance(x, float) and n != "answers"}


def _reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> int:
    """The most bytes of tensors at once; 0 on a CPU, where it is not counted."""
    on_gpu = device in ("auto", "cuda") and torch.cuda.is_available()
    return torch.cuda.max_memory_allocated() if on_gpu else 0
