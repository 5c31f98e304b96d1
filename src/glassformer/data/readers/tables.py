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
    RowError,
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
Numbered = Iterator[tuple[int, Row]]  # a row with the number of its line, or its own, from 1
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
    unit = "row" if source.is_dir() or kind(source) == ".parquet" else "line"
    read = _read(source, needed, header, separator, bad, encoding)
    for number, row in some(read, source, "row"):
        where = f"{source}: {unit} {number}"
        if missing := missing_field(row, needed, where):
            bad(RowError(missing, number))
        else:
            yield where, row


def missing_field(row: Row, needed: Sequence[str], where: str) -> str | None:
    """An error message, if the row at this location lacks a field."""
    missing = next((name for name in needed if name not in row), None)
    return (
        None if missing is None else f"{where}: there is no field {missing!r}: it has {_list(row)}"
    )


def _read(
    source: Path, needed: Sequence[str], header: Sequence[str] | None, separator: str | None,
    bad: Bad, encoding: str,
) -> Numbered:  # fmt: skip
    if source.is_dir():
        return arrow.saved(source)
    if separator is not None or kind(source) in (".csv", ".tsv"):
        cells = records(source, separator, bad, encoding, header)
        return with_names(source, cells, needed, header, bad)
    match kind(source):
        case ".jsonl":
            return json_rows(source, read_lines(source, bad, encoding), bad)
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
        return csv_records(file, read_lines(file, bad, encoding), bad, separator)
    max_splits = MOST_COLUMNS if separator is None or header is None else len(header) - 1
    return split_lines(read_lines(file, bad, encoding), separator or "\t", max_splits)


def csv_separator(file: Path, encoding: str = UTF8) -> str:
    """What separates the columns of a .csv file: the first of SEPARATORS in its header line."""
    _, header = next(read_lines(file, lambda error: None, encoding), (1, ""))
    return next((each for each in SEPARATORS if each in header), ",")


def numbered_header(
    file: Path, columns: Sequence[str], separator: str | None, encoding: str = UTF8
) -> list[str] | None:
    """The names 1, 2, 3 …, if the columns are numbers and the first line does not have them."""
    if kind(file) not in (".csv", ".tsv") or not all(map(str.isdigit, columns)):
        return None
    _, first = next(records(file, separator, stop, encoding), (1, []))
    return None if set(columns) <= set(first) else [str(i + 1) for i in range(len(first))]


def json_rows(file: Path, lines: Iterable[tuple[int, str]], bad: Bad) -> Numbered:
    """The objects of these lines of a .jsonl file; empty lines are left out."""
    for number, line in lines:
        if line.strip():
            try:
                yield number, parse(line, f"{file}: line {number}")
            except CheckpointError as error:
                message = re.sub(r"line 1 (column \d+) \(char \d+\)", r"\1", str(error))
                bad(RowError(message, number))


def csv_records(
    file: Path, lines: Iterator[tuple[int, str]], bad: Bad, separator: str
) -> Iterator[tuple[int, list[str]]]:
    """The cells of each record of these lines, and the number of its first line.

    A quoted cell may contain line ends. After a record that cannot be read, the next line begins
    another one.
    """
    if len(separator) != 1:
        raise ConfigError(f"{file}: separator = {separator!r}: a .csv file has a single character")
    again = deque[tuple[int, str]]()
    record: list[tuple[int, str]] = []  # its lines

    def feed() -> Iterator[str]:
        while line := again.popleft() if again else next(lines, None):
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
            bad(RowError(
                f"{file}: line {record[0][0]}: {error}: close each quotation mark, double those "
                "inside a field, and write very long texts as .jsonl", record[0][0],
            ))  # fmt: skip
            again.extendleft(reversed(record[1:]))
            reader = csv.reader(feed(), strict=True, delimiter=separator)
            continue
        if cells is None:
            return
        yield record[0][0], cells


def split_lines(
    lines: Iterable[tuple[int, str]], separator: str, max_splits: int = MOST_COLUMNS
) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line, which are never quoted."""
    for number, line in lines:
        yield number, line.split(separator, max_splits) if line else []


def with_names(
    file: Path,
    records: Iterator[tuple[int, list[str]]],
    needed: Sequence[str],
    header: Sequence[str] | None,
    bad: Bad,
) -> Numbered:
    """Each record as a row; `header` has the names, or else the first record."""
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
            bad(RowError(
                f"{file}: line {number} has {counted(len(record), 'columns')}: write {len(names)}, "
                f"one for each of {_list(names)}", number,
            ))  # fmt: skip
            continue
        yield number, dict(zip(names, record, strict=True))


def _list(names: Iterable[str]) -> str:
    listed = [shown(name) for name in islice(names, MOST_LISTED + 1)]
    return ", ".join([*listed[:MOST_LISTED], *(["…"] if len(listed) > MOST_LISTED else [])])
