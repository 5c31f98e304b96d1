"""Rows with named fields: JSONL, CSV, TSV, Parquet, and saved Hugging Face datasets."""

from __future__ import annotations

import csv
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.readers import arrow
from glassformer.data.readers.files import (
    MOST_COLUMNS,
    UTF8,
    Bad,
    find_files,
    kind,
    read_lines,
    some,
    stop,
)
from glassformer.errors import CheckpointError, ConfigError, InputError, counted, shown
from glassformer.strictjson import parse

Row = dict[str, Any]
Located = tuple[str, Row]  # the location of a row, for errors ("train.csv: line 3"), and the row
KINDS = (".jsonl", ".csv", ".tsv", ".parquet")
MOST_LISTED = 20  # columns that an error names
MOST_CELLS = 1_000_000  # of a line
SEPARATORS = (",", ";", "\t")  # of .csv files: Excel writes a semicolon where 0,5 is a number


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
    encoding: str = UTF8,
) -> Iterator[Located]:
    """Yield rows and their locations. With a `separator` the file is a table with that delimiter,
    whatever its name. Outside of .csv files it is never quoted; with a `header`, the last column
    takes the remainder of a line."""
    read = _read(source, needed, header, separator, bad, encoding)
    for where, row in some(read, source, "row"):
        missing = next((name for name in needed if name not in row), None)
        if missing is None:
            yield where, row
        else:
            bad(InputError(f"{where}: there is no field {missing!r}: it has {_list(row)}"))


def _read(
    source: Path, needed: Sequence[str], header: Sequence[str] | None, separator: str | None,
    bad: Bad, encoding: str,
) -> Iterator[Located]:  # fmt: skip
    if source.is_dir():
        return arrow.saved(source)
    if separator is not None or kind(source) in (".csv", ".tsv"):
        cells = records(source, separator, bad, encoding, header)
        return _columns(source, cells, needed, header, bad)
    match kind(source):
        case ".jsonl":
            return _json(source, bad, encoding)
        case ".parquet":
            return arrow.parquet(source)
    raise InputError(f"{source}: name it after what is in it: {', '.join(KINDS)}")


def records(
    file: Path, separator: str | None = None, bad: Bad = stop, encoding: str = UTF8,
    header: Sequence[str] | None = None,
) -> Iterator[tuple[int, list[str]]]:  # fmt: skip
    """The cells of each row of a table, and the number of its first line."""
    if kind(file) == ".csv":
        separator = separator or (csv_separator(file, encoding) if header is None else ",")
        return _csv(file, bad, separator, encoding)
    max_splits = MOST_COLUMNS if separator is None or header is None else len(header) - 1
    return _split(file, bad, separator or "\t", max_splits, encoding)


def csv_separator(file: Path, encoding: str = UTF8) -> str:
    """What separates the columns of a .csv file: the first of SEPARATORS in its header line."""
    _, header = next(read_lines(file, lambda error: None, encoding), (1, ""))
    return next((each for each in SEPARATORS if each in header), ",")


def _json(file: Path, bad: Bad, encoding: str) -> Iterator[Located]:
    for number, line in read_lines(file, bad, encoding):
        if line.strip():
            where = f"{file}: line {number}"
            try:
                yield where, parse(line, where)
            except CheckpointError as error:
                message = re.sub(r"line 1 (column \d+) \(char \d+\)", r"\1", str(error))
                bad(InputError(message))


def _csv(file: Path, bad: Bad, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """A quoted cell may contain line ends. After a record that cannot be read, the next line begins
    another one."""
    if len(separator) != 1:
        raise ConfigError(f"{file}: separator = {separator!r}: a .csv file has a single character")
    unread, again = read_lines(file, bad, encoding), deque[tuple[int, str]]()
    record: list[tuple[int, str]] = []  # its lines

    def feed() -> Iterator[str]:
        while line := again.popleft() if again else next(unread, None):
            record.append(line)
            if line[1].count(separator) > MOST_CELLS:
                raise InputError(f"{file}: line {line[0]}: more than {MOST_CELLS:,} columns")
            yield f"{line[1]}\n"

    # The csv module rejects a field above 131,072 characters: an unclosed quotation mark is
    # reported long before the whole file is read.
    reader = csv.reader(feed(), strict=True, delimiter=separator)
    while True:
        record.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            bad(InputError(
                f"{file}: line {record[0][0]}: {error}: close each quotation mark, double those "
                "inside a field, and write very long texts as .jsonl"
            ))  # fmt: skip
            again.extendleft(reversed(record[1:]))
            reader = csv.reader(feed(), strict=True, delimiter=separator)
            continue
        if cells is None:
            return
        yield record[0][0], cells


def _split(
    file: Path, bad: Bad, separator: str, max_splits: int, encoding: str
) -> Iterator[tuple[int, list[str]]]:
    for number, line in read_lines(file, bad, encoding):
        yield number, line.split(separator, max_splits) if line else []


def _columns(
    file: Path,
    records: Iterator[tuple[int, list[str]]],
    needed: Sequence[str],
    header: Sequence[str] | None,
    bad: Bad,
) -> Iterator[Located]:
    names = list(header) if header is not None else next(records, (1, []))[1]
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"{file}: line 1: more than {MOST_COLUMNS:,} columns: write fewer, or check the "
            "separator"
        )
    known = set[str]()
    for name in names:
        if name in known:
            raise InputError(f"{file}: line 1: column {shown(name)} is there twice: write it once")
        known.add(name)
    for name in needed:
        if names and name not in names:
            raise InputError(f"{file}: line 1: there is no column {name!r}: it has {_list(names)}")
    for number, record in records:
        if not record:  # an empty line
            continue
        if len(record) != len(names):
            bad(InputError(
                f"{file}: line {number} has {counted(len(record), 'columns')}: write {len(names)}, "
                f"one for each of {_list(names)}"
            ))  # fmt: skip
            continue
        yield f"{file}: line {number}", dict(zip(names, record, strict=True))


def _list(names: Iterable[str]) -> str:
    listed = [shown(name) for name in islice(names, MOST_LISTED + 1)]
    return ", ".join([*listed[:MOST_LISTED], *(["…"] if len(listed) > MOST_LISTED else [])])
