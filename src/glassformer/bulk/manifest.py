"""The manifest of a bulk job: what is computed from which files, and where each shard begins.

OUTPUT/
  _manifest.json             written before the first shard, and never changed
  part-00000.jsonl           the output of the first shard: whole or absent
  _errors/part-00000.jsonl   its rows that could not be read: file, row and message
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from glassformer.data.fingerprints import Fingerprint, difference, fingerprints
from glassformer.data.parts import InputPart, cut
from glassformer.data.readers.files import find_files
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError, shown
from glassformer.safe_files import read
from glassformer.strictjson import parse_as

MANIFEST, ERRORS = "_manifest.json", "_errors"
MOST_BYTES, MOST_SHARDS = 2**29, 2_000_000
VERSION = 1


@dataclass(frozen=True)
class BulkJob:
    """What decides the output, besides the model and the files."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    task: str
    columns: list[str]
    encoding: str
    shard_rows: int
    format: str
    dtype: str | None
    options: dict[str, Any]


@dataclass(frozen=True)
class InputShard:
    """The rows of one output file: a part of an input file."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    file: str
    part: InputPart


@dataclass(frozen=True)
class BulkManifest:
    __pydantic_config__ = ConfigDict(extra="forbid")

    version: int
    job: BulkJob
    model: list[Fingerprint]
    inputs: list[Fingerprint]
    shards: list[InputShard]

    def output(self, number: int) -> str:
        """The name of the file that a shard is written to."""
        return f"part-{number:05d}.{self.job.format}"

    def unfinished(self, folder: Path) -> list[int]:
        """The shards whose output is absent."""
        names = {path.name for path in folder.iterdir()}
        return [i for i in range(len(self.shards)) if self.output(i) not in names]


@dataclass(frozen=True)
class ModelFolders:
    """The weights that compute."""

    model: Path
    adapter: Path | None = None

    def files(self) -> dict[str, Path]:
        files = named_files(self.model)
        if self.adapter is not None:
            files |= {f"adapter/{n}": file for n, file in named_files(self.adapter).items()}
        return files


def named_files(path: Path) -> dict[str, Path]:
    """The file, or the files of a folder, by their names in it."""
    files = find_files(path)
    return {
        file.relative_to(path).as_posix() if file != path else file.name: file for file in files
    }


def plan(job: BulkJob, model: ModelFolders, source: Path) -> BulkManifest:
    """Read all input once: fingerprints, and where each shard begins."""
    files = named_files(source)
    inputs = fingerprints(files)
    shards = [
        InputShard(name, part)
        for name, file in files.items()
        for part in cut(file, job.columns, job.shard_rows, job.encoding)
    ]
    if not shards:
        raise InputError(f"{source}: there is no row in it")
    if len(shards) > MOST_SHARDS:
        raise ConfigError(f"{len(shards):,} shards: write a larger number than {job.shard_rows:,}")
    return BulkManifest(VERSION, job, fingerprints(model.files()), inputs, shards)


def write_manifest(manifest: BulkManifest, output: Path) -> None:
    write_whole(output / MANIFEST, json.dumps(asdict(manifest), ensure_ascii=False).encode())


def read_manifest(output: Path) -> BulkManifest | None:
    """The manifest of a folder; None if it has none."""
    data = read(output, MANIFEST, MOST_BYTES)
    if data is None:
        return None
    limit = 10 * MOST_SHARDS
    return parse_as(BulkManifest, data, f"{output / MANIFEST}", values=limit, objects=limit)


def check_same(
    manifest: BulkManifest, job: BulkJob, model: ModelFolders, source: Path, output: Path
) -> None:
    """ConfigError that says what has changed, if this is not the job that began in the folder."""
    for name, before, now in _differences(manifest.job, job):
        raise _another_job(output, f"{name} was {shown(before)} and is {shown(now)}")
    for what, known, files in (
        ("model", manifest.model, model.files()), ("input", manifest.inputs, named_files(source)),
    ):  # fmt: skip
        if changed := difference(known, files):
            raise _another_job(output, f"the {what} has changed: {changed}")


def _another_job(output: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{output}: another job began in this folder ({why}): choose another output folder, or "
        "delete this one"
    )


def _differences(before: BulkJob, now: BulkJob) -> list[tuple[str, Any, Any]]:
    """The name and both values of each field or option that differs."""
    pairs = {
        field.name: (getattr(before, field.name), getattr(now, field.name))
        for field in fields(BulkJob)
        if field.name != "options"
    }
    pairs |= {
        name: (before.options.get(name), now.options.get(name))
        for name in before.options | now.options
    }
    return [(name, *both) for name, both in pairs.items() if both[0] != both[1]]


def as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as they are after the manifest was written and read."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(options)))
    return plain
