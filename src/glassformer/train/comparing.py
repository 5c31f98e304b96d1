"""Several models on one task: the runs that it takes, and the table of what they found.

Nothing here costs the import of torch.
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

from glassformer.errors import ConfigError
from glassformer.presets import PRESETS
from glassformer.recipe.paths import full_path, model_path
from glassformer.recipe.schema import METRICS, Recipe, recipe_from

RANDOM = ":random"  # behind a model: its network and tokenizer, without its weights
LONGEST = 100  # characters of a folder's name


@dataclass(frozen=True)
class Planned:
    """A run of the table: an ordinary one, in a folder of its own."""

    model: str  # as it was named
    what: str  # which of its runs
    recipe: Recipe
    folder: Path
    test: str | None  # what the figures are of; if not given, of the part that is held out

    @property
    def measuring(self) -> Recipe:
        """The recipe whose held-out part is what the figures are of."""
        if self.test is None:
            return self.recipe
        data = self.recipe.data.model_copy(update={"valid": self.test, "fold": None})
        return self.recipe.model_copy(update={"data": data})


@dataclass(frozen=True)
class Result:
    parameters: int
    seconds: float
    memory: int  # bytes
    figures: dict[str, float]


@dataclass(frozen=True)
class Line:
    """One model: means over its runs, and how far they are from them (standard deviation)."""

    model: str
    parameters: int
    seconds: float
    memory: int
    means: dict[str, float]
    deviations: dict[str, float]  # empty of a single run
    runs: list[Result]


def plan(
    models: Sequence[str], fields: dict[str, Any], changes: Mapping[str, str], source: str,
    out: Path, seeds: int | None, folds: int | None, test: str | None,
) -> list[Planned]:  # fmt: skip
    """All runs, checked as far as a recipe can be; without `seeds` nothing is trained."""
    test = None if test is None else str(full_path(test))
    names = [re.sub(r"[^\w.]+", "-", model).strip("-.")[-LONGEST:] for model in models]
    same = [name.casefold() for name in names]  # many file systems do not tell A from a
    for i, name in enumerate(same):
        if name in same[:i]:
            first = models[same.index(name)]
            raise ConfigError(f"{first} and {models[i]} would share a folder: name one of them")
    found = []
    for model, name in zip(models, names, strict=True):
        for fold in range(1, folds + 1) if folds else [None]:
            part = {} if fold is None else {"data.fold": f"{fold}/{folds}"}
            recipe = recipe_from(_fields(model, fields), {**changes, **part}, source)
            for seed in range(seeds or 1):
                train = recipe.train.model_copy(update={"seed": recipe.train.seed + seed})
                what = ["as it is"] if seeds is None else [f"seed {train.seed}"]
                what += [] if fold is None else [f"fold {fold} of {folds}"]
                own = recipe.model_copy(update={"train": train})
                folder = out / name / "-".join(" ".join(what).split())
                found.append(Planned(model, ", ".join(what), own, folder, test))
    return found


def _fields(model: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The recipe with this model in place of its own; of [model] only dropout stays."""
    found = copy.deepcopy(fields)
    for name in ("init_from", "random_init"):
        found.pop(name, None)
    kept = found.pop("model", {})
    found["model"] = {name: kept[name] for name in ("dropout",) if name in kept}
    if model in PRESETS:
        found["model"]["preset"] = model
    else:
        found.pop("tokenizer", None)
        found["init_from"] = model_path(model.removesuffix(RANDOM))
        found["random_init"] = model.endswith(RANDOM)
    return found


def metric_of(recipe: Recipe, figures: Mapping[str, float]) -> str:
    """The one that is compared: what chooses the result, or the most telling one there is."""
    known = METRICS.get(recipe.objective.kind, ())
    return recipe.train.best_by or next((name for name in figures if name in known), "loss")


def summary(found: Sequence[tuple[str, Result]]) -> list[Line]:
    """In the order of the models."""
    return [
        _line(model, [result for name, result in found if name == model])
        for model in dict.fromkeys(model for model, _ in found)
    ]


def _line(model: str, runs: list[Result]) -> Line:
    columns = {name: [run.figures[name] for run in runs] for name in runs[0].figures}
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
    """A row a model, a column a figure and one for its deviation."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    figures = list(lines[0].means)
    table.writerow(["model", "runs", "parameters", "seconds", "memory_bytes", *_both(figures)])
    for line in lines:
        figures_of = [x for n in figures for x in (line.means[n], line.deviations.get(n, ""))]
        table.writerow([line.model, len(line.runs), line.parameters, line.seconds, line.memory,
                        *figures_of])  # fmt: skip
    return written.getvalue()


def _both(figures: Sequence[str]) -> Iterator[str]:
    for name in figures:
        yield from (name, f"{name}_deviation")
