"""One shard after the other: read its rows, compute, write its output beside, rename it."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.bulk.manifest import ERRORS, InputShard, ModelFolders, named_files, read_manifest
from glassformer.bulk.tasks import ModelSpec, TextFunction, apply_to_rows, text_function
from glassformer.bulk.writers import RowWriter, open_writer
from glassformer.data.fingerprints import difference
from glassformer.data.parts import read_part
from glassformer.data.readers.tables import Row
from glassformer.data.remote import fetch
from glassformer.data.table_files import Cells, is_empty
from glassformer.durable import replacing, write_whole
from glassformer.errors import InputError, shown

GROUP_ROWS, GROUP_CHARACTERS = 512, 2**20  # of a group: rows that are in memory together


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker needs, on whatever host it is; the manifest in the output has the rest."""

    source: Path
    output: Path
    model: ModelFolders
    device: str
    process: int | None = None  # the number of this process, where several share the GPUs
    address: str | None = None  # that `source` was fetched from: another host fetches it, too


@dataclass(frozen=True)
class ShardResult:
    number: int
    errors: int  # rows in the side file
    warnings: int
    first_warning: str


@dataclass(frozen=True)
class InputRow:
    number: int
    row: Row
    text: Any  # a string, or a pair of strings


class ShardWorker:
    """Holds the model."""

    def __init__(self, spec: WorkerSpec) -> None:
        manifest = read_manifest(spec.output)
        if manifest is None:
            raise InputError(f"{spec.output}: there is no job in this folder")
        self.spec, self.manifest, self.job = spec, manifest, manifest.job
        here = spec.address is None or spec.source.exists()
        self.files = named_files(spec.source if here else fetch(str(spec.address)))
        self.known = {each.name: each for each in manifest.inputs}
        self.function = text_function(
            self.job.task,
            ModelSpec(spec.model, spec.device, self.job.dtype, spec.process),
            self.job.options,
            pairs=len(self.job.columns) > 1,
        )

    def run(self, number: int) -> ShardResult:
        """Write the output of a shard."""
        shard, name = self.manifest.shards[number], self.manifest.output(number)
        file = self.files[shard.file]
        if changed := difference([self.known[shard.file]], {shard.file: file}):
            raise InputError(f"{changed} while it was read: run it with a new output folder")
        errors: list[dict[str, Any]] = []
        with (
            warnings.catch_warnings(record=True) as caught,
            replacing(self.spec.output / name, name=f"_{secrets.token_hex(4)}") as stream,
        ):
            warnings.simplefilter("always", UserWarning)
            writer = open_writer(self.job, stream, file)
            for rows in self._computed(shard, file, errors, writer):
                writer.write(rows)
            writer.close()
            if errors:  # before the output is renamed, which says that the shard is finished
                lines = (json.dumps(each, ensure_ascii=False) for each in errors)
                side = self.spec.output / ERRORS / f"{Path(name).stem}.jsonl"
                write_whole(side, "".join(f"{line}\n" for line in lines).encode())
        first = str(caught[0].message) if caught else ""
        return ShardResult(number, len(errors), len(caught), first)

    def _computed(
        self, shard: InputShard, file: Path, errors: list[dict[str, Any]], writer: RowWriter
    ) -> Iterator[list[Row]]:
        """The rows with their new columns, group by group; the others go to `errors`."""

        def skip(number: int, error: InputError | str) -> None:
            errors.append({"file": shard.file, "row": number, "message": str(error)})

        for group in self._groups(shard, file, skip, writer):
            results = _results(self.function, [each.text for each in group])
            rows = []
            for each, cells in zip(group, results, strict=True):
                row = cells if isinstance(cells, InputError) else writer.joined(each.row, cells)
                if isinstance(row, InputError):
                    skip(each.number, row)
                else:
                    rows.append(row)
            yield rows

    def _groups(
        self, shard: InputShard, file: Path, skip: Any, writer: RowWriter
    ) -> Iterator[list[InputRow]]:
        group, characters = list[InputRow](), 0
        for number, row in read_part(file, shard.part, self.job.columns, self.job.encoding):
            text = row if isinstance(row, InputError) else self._text(row)
            if isinstance(row, InputError) or isinstance(text, InputError):
                skip(number, text)
                continue
            if mistake := writer.mistake(row):
                skip(number, mistake)
                continue
            group.append(InputRow(number, row, text))
            characters += len(text) if isinstance(text, str) else sum(map(len, text))
            if len(group) == GROUP_ROWS or characters > GROUP_CHARACTERS:
                yield group
                group, characters = [], 0
        if group:
            yield group

    def _text(self, row: Row) -> Any:
        """The text or the pair of texts of a row; InputError if they are something else."""
        names = self.job.columns or list(row)
        cells = ["" if row[name] is None else row[name] for name in names]
        for name, cell in zip(names, cells, strict=True):
            if not isinstance(cell, str):
                return InputError(f"{name} = {shown(cell)}: write a text")
        return cells[0] if len(cells) == 1 else tuple(cells)


def _results(function: TextFunction, texts: list[Any]) -> list[Cells | InputError]:
    """The new columns of each text, with those of an empty one in its place."""
    empty = function.empty
    if empty is None:
        return apply_to_rows(function, texts)
    full = [text for text in texts if not is_empty(text)]
    results = iter(apply_to_rows(function, full) if full else ())
    return [empty if is_empty(text) else next(results) for text in texts]
