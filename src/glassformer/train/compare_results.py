"""The results of a comparison's runs: kept beside each run, so that finished runs are reused."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from glassformer.data.fingerprints import MOST_FILES, Fingerprint, difference, fingerprints
from glassformer.data.run_paths import RunPaths
from glassformer.durable import write_whole
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.pretrained import named
from glassformer.strictjson import parse_as
from glassformer.train.compare_plan import PlannedRun, RunResult
from glassformer.train.init_from import check_model
from glassformer.train.run_dir import check_same
from glassformer.train.source_files import source_files

RESULT = "result.json"


@dataclass(frozen=True)
class StoredResult:
    """result.json: the result of a run, and everything it depends on."""

    result: RunResult
    request: dict[str, Any]
    files: list[Fingerprint]


def check(planned: PlannedRun, paths: RunPaths) -> RunResult | None:
    """Check that a run can start; returns its result if it is finished."""
    recipe = planned.recipe
    if recipe.data.valid is None and not recipe.data.splits:
        raise ConfigError(
            f"{paths.source}: there is no validation data: write data.valid or data.valid_fraction"
        )
    check_model(recipe, paths.source)
    check_same(recipe, planned.folder)
    if planned.test is not None:
        paths.find("test", planned.test)
    files = _files(planned, paths)
    path = planned.folder / RESULT
    if not path.is_file():
        return None
    try:
        stored = parse_as(
            StoredResult, path.read_bytes(), str(path), values=8 * MOST_FILES, objects=MOST_FILES
        )
    except CheckpointError as error:
        raise InputError(f"{error}: delete this file: the run is evaluated again") from None
    if stored.request != _request(planned):
        return None  # the recipe has more steps than before: the run is resumed
    changed = difference(stored.files, files)
    if changed is not None:
        raise InputError(
            f"{changed} since {planned.folder} was made: choose another --out, or delete it"
        )
    return stored.result


def keep(planned: PlannedRun, paths: RunPaths, result: RunResult) -> None:
    """Write the result of a run, with everything it depends on."""
    stored = StoredResult(result, _request(planned), fingerprints(_files(planned, paths)))
    write_whole(planned.folder / RESULT, (json.dumps(asdict(stored), indent=2) + "\n").encode())


def _request(planned: PlannedRun) -> dict[str, Any]:
    """What the result depends on; the data root may move."""
    recipe = planned.recipe.model_dump(mode="json", exclude={"root"})
    return {"recipe": recipe, "test": planned.test}


def _files(planned: PlannedRun, paths: RunPaths) -> dict[str, Path]:
    """The data and the initial weights, which decide the metrics besides the recipe."""
    recipe, files = planned.recipe, dict[str, Path]()
    parts = {"train": recipe, "valid": recipe, "test": planned.measuring}
    for part, part_recipe in parts.items():
        side = "train" if part == "train" else "valid"
        read = source_files(part_recipe.data, replace(paths, out=planned.folder), side) or {}
        files |= {f"{part} {name}": file for name, file in read.items()}
    if recipe.init_from is not None:
        initial = named(recipe.init_from)
        weights = [initial] if initial.is_file() else sorted(initial.glob("*.safetensors"))
        files |= {file.name: file for file in weights}
    return files
