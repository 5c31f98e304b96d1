"""The plan and the table of `gf.compare`: several models on one task, with several seeds.

This module does not import torch.
"""

from __future__ import annotations

import copy
import csv
import io
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.remote import is_address
from glassformer.errors import ConfigError
from glassformer.objectives import objective_of
from glassformer.presets import PRESETS
from glassformer.recipe.paths import full_path, model_path
from glassformer.recipe.schema import Recipe, recipe_from
from glassformer.train.run_dir import check_no_link

RANDOM = ":random"  # after a model: its network and tokenizer, with random weights
LONGEST = 100  # characters of a folder's name


@dataclass(frozen=True)
class PlannedRun:
    """One run of the comparison, in a folder of its own."""

    model: str  # its name in the table
    weights: str  # a preset, or where the model is
    label: str  # which of its runs
    recipe: Recipe
    folder: Path
    test: str | None  # what is evaluated; the validation data if not given

    @property
    def measuring(self) -> Recipe:
        """The recipe whose validation data is evaluated."""
        if self.test is None:
            return self.recipe
        data = self.recipe.data.model_copy(update={"valid": self.test, "fold": None})
        return self.recipe.model_copy(update={"data": data})


@dataclass(frozen=True)
class RunResult:
    parameters: int
    seconds: float
    memory: int  # bytes
    metrics: dict[str, float]


@dataclass(frozen=True)
class Line:
    """One model: means and standard deviations over its runs."""

    model: str
    parameters: int
    seconds: float
    memory: int
    means: dict[str, float]
    deviations: dict[str, float]  # empty for a single run
    runs: list[RunResult]


def folder_names(models: Sequence[str]) -> list[str]:
    """The names of the models' folders."""
    names = [re.sub(r"[^\w.]+", "-", model).strip("-.")[-LONGEST:] for model in models]
    folded = [name.casefold() for name in names]  # many file systems ignore case
    for i, name in enumerate(folded):
        if name in folded[:i]:
            first = models[folded.index(name)]
            raise ConfigError(f"{first} and {models[i]} would share a folder: name one of them")
    return names


def plan(
    models: Mapping[str, str], fields: dict[str, Any], changes: Mapping[str, str], source: str,
    out: Path, seeds: int | None, folds: int | None, test: str | None,
) -> list[PlannedRun]:  # fmt: skip
    """All runs, each with a valid recipe; without `seeds` nothing is trained.

    models: their names in the table, and where they are.
    """
    if test is not None and not is_address(test):
        test = str(full_path(test))
    runs = []
    for (model, weights), name in zip(models.items(), folder_names([*models]), strict=True):
        for fold in range(1, folds + 1) if folds else [None]:
            part = {} if fold is None else {"data.fold": f"{fold}/{folds}"}
            recipe = recipe_from(_fields(weights, fields), {**changes, **part}, source)
            for seed in range(seeds or 1):
                train = recipe.train.model_copy(update={"seed": recipe.train.seed + seed})
                label = ["as it is"] if seeds is None else [f"seed {train.seed}"]
                label += [] if fold is None else [f"fold {fold} of {folds}"]
                seeded = recipe.model_copy(update={"train": train})
                folder = out / name / "-".join(" ".join(label).split())
                check_no_link(folder.parent, folder)
                runs.append(PlannedRun(model, weights, ", ".join(label), seeded, folder, test))
    return runs


def _fields(model: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The recipe with this model instead of its own; of [model] only dropout stays."""
    changed = copy.deepcopy(fields)
    for name in ("init_from", "random_init"):
        changed.pop(name, None)
    kept = changed.pop("model", {})
    changed["model"] = {name: kept[name] for name in ("dropout",) if name in kept}
    if model in PRESETS:
        changed["model"]["preset"] = model
    else:
        changed.pop("tokenizer", None)
        changed["init_from"] = model_path(model.removesuffix(RANDOM))
        changed["random_init"] = model.endswith(RANDOM)
    return changed


def metric_of(recipe: Recipe, metrics: Mapping[str, float]) -> str:
    """The metric to compare: the recipe's, or the objective's most informative one."""
    known = objective_of(recipe).best_by
    return recipe.train.best_by or next((name for name in metrics if name in known), "loss")


def summary(results: Sequence[tuple[str, RunResult]]) -> list[Line]:
    """One line per model, in their order."""
    return [
        _line(model, [result for name, result in results if name == model])
        for model in dict.fromkeys(model for model, _ in results)
    ]


def _line(model: str, runs: list[RunResult]) -> Line:
    columns = {name: [run.metrics[name] for run in runs] for name in runs[0].metrics}
    return Line(
        model,
        runs[0].parameters,
        statistics.fmean(run.seconds for run in runs),
        max(run.memory for run in runs),
        {name: statistics.fmean(values) for name, values in columns.items()},
        {name: statistics.stdev(values) for name, values in columns.items() if len(runs) > 1},
        runs,
    )


def as_csv(lines: Sequence[Line]) -> str:
    """A row for each model, two columns for each metric: mean and deviation."""
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    metrics = list(lines[0].means)
    table.writerow(["model", "runs", "parameters", "seconds", "memory_bytes", *_both(metrics)])
    for line in lines:
        values = [x for n in metrics for x in (line.means[n], line.deviations.get(n, ""))]
        table.writerow([line.model, len(line.runs), line.parameters, line.seconds, line.memory,
                        *values])  # fmt: skip
    return buffer.getvalue()


def _both(metrics: Sequence[str]) -> Iterator[str]:
    for name in metrics:
        yield from (name, f"{name}_deviation")
