"""Rows with named fields: JSONL, CSV, TSV, Parquet, and saved Hugging Face datasets."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.data.readers import arrow
from glassformer.data.readers.files import Bad, find_files, kind, read_lines, some, stop
from glassformer.errors import CheckpointError, InputError
from glassformer.strictjson import parse

Row = dict[str, Any]
Located = tuple[str, Row]  # the location of a row, for errors ("train.csv: line 3"), and the row
KINDS = (".jsonl", ".csv", ".tsv", ".parquet")


def rows(
    path: str | os.PathLike[str],
    needed: Sequence[str] = (),
    header: Sequence[str] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file or a folder; each has at least the fields `needed`.

    CSV is quoted as in RFC 4180; in TSV, as in GLUE, a quotation mark is an ordinary character.
    Their values are strings. `header` names the columns of files without a header line, like CoLA.
    """
    for source in sources(path):
        for _, row in located(source, needed, header):
            yield row


def sources(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a path; a saved Hugging Face dataset counts as one."""
    folder = Path(path)
    if (folder / "dataset_dict.json").is_file():
        parts = sorted(str(state.parent) for state in folder.glob("*/state.json"))
        raise InputError(f"{folder}: it has parts: write one of {', '.join(parts)}")
    return [folder] if (folder / "state.json").is_file() else find_files(folder)


def located(
    source: Path,
    needed: Sequence[str] = (),
    header: Sequence[str] | None = None,
    separator: str | None = None,
    bad: Bad = stop,
) -> Iterator[Located]:
    """Yield rows and their locations. With a `separator` the file is a table with that delimiter,
    whatever its name; with a `header` too, the last column takes the remainder of a line."""
    for where, row in some(_read(source, needed, header, separator, bad), source, "row"):
        missing = next((name for name in needed if name not in row), None)
        if missing is None:
            yield where, row
        else:
            bad(InputError(f"{where}: there is no field {missing!r}: it has {_list(row)}"))


def _read(
    source: Path, needed: Sequence[str], header: Sequence[str] | None, separator: str | None,
    bad: Bad,
) -> Iterator[Located]:  # fmt: skip
    if source.is_dir():
        return arrow.saved(source)
    if separator is not None:
        max_splits = -1 if header is None else len(header) - 1
        return _columns(source, _split(source, bad, separator, max_splits), needed, header, bad)
    match kind(source):
        case ".jsonl":
            return _json(source, bad)
        case ".csv":
            return _columns(source, _csv(source), needed, header, bad)
        case ".tsv":
            return _columns(source, _split(source, bad), needed, header, bad)
        case ".parquet":
            return arrow.parquet(source)
    raise InputError(f"{source}: name it after what is in it: {', '.join(KINDS)}")


def _json(file: Path, bad: Bad) -> Iterator[Located]:
    for number, line in read_lines(file, bad):
        if line.strip():
            where = f"{file}: line {number}"
            try:
                yield where, parse(line, where)
            except CheckpointError as error:
                message = re.sub(r"line 1 (column \d+) \(char \d+\)", r"\1", str(error))
                bad(InputError(message))


def _csv(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Records, and the lines they begin on: a quoted field may contain line ends."""
    # The csv module rejects a field above 131,072 characters: an unclosed quotation mark is
    # reported long before the whole file is read.
    reader = csv.reader((f"{line}\n" for _, line in read_lines(file)), strict=True)
    start = 1
    while True:
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{file}: line {start}: {error}: close each quotation mark, double those inside "
                "a field, and write very long texts as .jsonl"
            ) from None
        if record is None:
            return
        yield start, record
        start = reader.line_num + 1


def _split(
    file: Path, bad: Bad, separator: str = "\t", max_splits: int = -1
) -> Iterator[tuple[int, list[str]]]:
    for number, line in read_lines(file, bad):
        yield number, line.split(separator, max_splits) if line else []


def _columns(
    file: Path,
    records: Iterator[tuple[int, list[str]]],
    needed: Sequence[str],
    header: Sequence[str] | None,
    bad: Bad,
) -> Iterator[Located]:
    names = list(header) if header is not None else next(records, (1, []))[1]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{file}: line 1: column {name!r} is there twice: write it once")
    for name in needed:
        if names and name not in names:
            raise InputError(f"{file}: line 1: there is no column {name!r}: it has {_list(names)}")
    for number, record in records:
        if not record:  # an empty line
            continue
        if len(record) != len(names):
            bad(InputError(
                f"{file}: line {number} has {len(record)} columns: write {len(names)}, one for "
                f"each of {_list(names)}"
            ))  # fmt: skip
            continue
        yield f"{file}: line {number}", dict(zip(names, record, strict=True))


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
