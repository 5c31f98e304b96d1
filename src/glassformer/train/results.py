"""What the runs of a comparison have found: kept with each of them, and not found again."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from glassformer.data.fingerprints import Fingerprint, difference, fingerprints
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError
from glassformer.pretrained import named
from glassformer.strictjson import parse
from glassformer.train.comparing import Planned, Result
from glassformer.train.documents import RunPaths, source_files
from glassformer.train.init_from import check_start
from glassformer.train.run_dir import check_same

RESULT = "result.json"


def check(planned: Planned, place: RunPaths) -> Result | None:
    """Can it be run here? What it has found, if it is done."""
    recipe = planned.recipe
    if recipe.data.valid is None and not recipe.data.splits:
        raise ConfigError(
            f"{place.source}: nothing is held out: write data.valid or data.valid_fraction"
        )
    check_start(recipe, place.source)
    check_same(recipe, planned.folder)
    files = _files(planned, place)
    path = planned.folder / RESULT
    kept = parse(path.read_bytes(), str(path)) if path.is_file() else {}
    if kept.pop("asked", None) != _asked(planned):
        return None  # as any run may: longer than before, it goes on
    changed = difference([Fingerprint(**each) for each in kept.pop("files")], files)
    if changed is not None:
        raise InputError(
            f"{changed} since {planned.folder} was made: choose another --out, or delete it"
        )
    return Result(**kept)


def keep(planned: Planned, place: RunPaths, result: Result) -> None:
    found = {
        **asdict(result),
        "asked": _asked(planned),
        "files": [asdict(stamp) for stamp in fingerprints(_files(planned, place))],
    }
    write_whole(planned.folder / RESULT, (json.dumps(found, indent=2) + "\n").encode())


def _asked(planned: Planned) -> dict[str, Any]:
    """Where the data lies is no part of it: it may move."""
    recipe = planned.recipe.model_dump(mode="json", exclude={"root"})
    return {"recipe": recipe, "test": planned.test}


def _files(planned: Planned, place: RunPaths) -> dict[str, Path]:
    """What decides the figures, beside the recipe: the data, and the weights to start from."""
    recipe, found = planned.recipe, dict[str, Path]()
    parts = {"train": recipe, "valid": recipe, "test": planned.measuring}
    for part, of in parts.items():
        side = "train" if part == "train" else "valid"
        read = source_files(of, replace(place, out=planned.folder), side) or {}
        found |= {f"{part} {name}": file for name, file in read.items()}
    if recipe.init_from is not None:
        start = named(recipe.init_from)
        weights = [start] if start.is_file() else sorted(start.glob("*.safetensors"))
        found |= {file.name: file for file in weights}
    return found
