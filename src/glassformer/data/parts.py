"""Large files in parts: where a file is cut, and the rows of one part, read alone.

A part of a file with lines is a range of bytes that begins with a row; a part of a Parquet file is
a range of rows. Packed files and UTF-16 cannot be read from the middle: each is one part.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from glassformer.data.readers import arrow
from glassformer.data.readers.files import (
    PACKED,
    UTF8,
    WIDE,
    Bad,
    RowError,
    kind,
    lines,
    stop,
    unpacked,
)
from glassformer.data.readers.tables import (
    Numbered,
    Row,
    csv_records,
    csv_separator,
    json_rows,
    missing_field,
    numbered_header,
    records,
    split_lines,
    with_names,
)
from glassformer.data.table_files import is_table, which_column
from glassformer.errors import ConfigError, InputError

TEXT = "text"  # the field of a line of plain text
MOST_BYTES = 2**26  # of a part, unless one row has more


@dataclass(frozen=True)
class InputPart:
    """Some rows of a file."""

    start: int  # the first byte; of a Parquet file, how many rows come before
    end: int | None  # the byte or row after the last one; None: the end of the file
    line: int  # the number of the first line
    rows: int  # how many, those that cannot be read included


WHOLE = InputPart(0, None, 1, 0)


def cut(file: Path, columns: Sequence[str], rows: int, encoding: str = UTF8) -> list[InputPart]:
    """The parts of a file, each of at most about this many rows; none if it has no row.

    Args:
        columns: those of the texts in a table; numbers from 1, if there is no header line
        rows: after this many (or 64 MB) a new part begins with the next good row

    InputError if the file cannot be read, or lacks one of the columns.
    """
    _check_columns(file, columns, encoding)
    if kind(file) == ".parquet":
        count = arrow.count_rows(file)
        starts = range(0, count, rows)
        return [InputPart(i, min(i + rows, count), i + 1, min(rows, count - i)) for i in starts]
    errors, parts, count = list[InputError](), list[InputPart](), 0
    start, line = 0, 1
    with unpacked(file) as stream:
        cuttable = not _is_whole(file, encoding)
        positions = _Positions(stream)
        source = lines(positions if cuttable else stream, f"{file}", errors.append, encoding)  # type: ignore[arg-type]
        for number in _row_lines(file, source, columns, errors.append, encoding):
            count += len(errors)
            errors.clear()
            offset = positions.of(number) if cuttable else 0
            if cuttable and not parts and not count:  # after the header line
                start, line = offset, number
            elif cuttable and (count >= rows or offset - start >= MOST_BYTES):
                parts.append(InputPart(start, offset, line, count))
                start, line, count = offset, number, 0
            count += 1
    count += len(errors)
    return [*parts, InputPart(start, None, line, count)] if count else parts


def read_part(
    file: Path, part: InputPart, columns: Sequence[str], encoding: str = UTF8
) -> Iterator[tuple[int, Row | InputError]]:
    """The rows of a part, with their numbers; an error in the place of each that is unusable."""
    errors: list[InputError] = []
    for number, row in _read(file, part, columns, encoding, errors.append):
        yield from _numbered(errors)
        missing = _missing(file, number, row, columns)
        yield number, row if missing is None else missing
    yield from _numbered(errors)


def read_rows(file: Path, columns: Sequence[str], encoding: str = UTF8) -> Iterator[Row]:
    """The rows of a file, but for those that cannot be read."""
    return (row for _, row in _read(file, WHOLE, columns, encoding, lambda _: None))


def _numbered(errors: list[InputError]) -> Iterator[tuple[int, InputError]]:
    for error in errors:
        yield error.number if isinstance(error, RowError) else 0, error
    errors.clear()


def _missing(file: Path, number: int, row: Row, columns: Sequence[str]) -> InputError | None:
    if all(name in row for name in columns):
        return None
    unit = "row" if kind(file) == ".parquet" else "line"
    line = missing_field(row, columns, f"{file}: {unit} {number}")
    return None if line is None else RowError(line, number)


def _check_columns(file: Path, columns: Sequence[str], encoding: str) -> None:
    """InputError if the first row lacks a column: another file was meant, or another column."""
    if kind(file) == ".json":
        raise InputError(f"{file}: write one object a line, and name it .jsonl")
    if not is_table(file):
        if columns:
            raise ConfigError(f"{file}: column {columns[0]!r}: only a table has columns")
        return
    if not columns:
        raise which_column(file, encoding)
    first = next(_read(file, WHOLE, columns, encoding, lambda error: None), None)
    if first is not None and (missing := _missing(file, *first, columns)):
        raise missing


def _is_whole(file: Path, encoding: str) -> bool:
    return file.suffix.lower() in PACKED or codecs.lookup(encoding).name.startswith(WIDE)


class _Positions:
    """A stream that knows where each of the last lines began."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.offset, self.number = stream, 0, 0
        self.starts = deque[tuple[int, int]]()

    def readline(self, size: int) -> bytes:
        line = self.stream.readline(size)
        self.number += 1
        self.starts.append((self.number, self.offset))
        self.offset += len(line)
        return line

    def of(self, number: int) -> int:
        """The first byte of a line; earlier lines are forgotten."""
        while self.starts[0][0] < number:
            self.starts.popleft()
        return self.starts[0][1]


def _row_lines(
    file: Path, source: Iterator[tuple[int, str]], columns: Sequence[str], bad: Bad, encoding: str
) -> Iterator[int]:
    """The number of the first line of each row."""
    if kind(file) not in (".csv", ".tsv"):
        keeps_empty = kind(file) != ".jsonl"
        return (number for number, line in source if keeps_empty or line.strip())
    separator, header = _table_layout(file, columns, encoding)
    cells = csv_records(file, source, bad, separator) if separator else split_lines(source, "\t")
    if header is None:
        next(cells, None)
    return (number for number, row in cells if row)


def _table_layout(
    file: Path, columns: Sequence[str], encoding: str
) -> tuple[str | None, list[str] | None]:
    """The separator of a .csv file, and the names of columns if there is no header line."""
    separator = csv_separator(file, encoding) if kind(file) == ".csv" else None
    return separator, numbered_header(file, columns, separator, encoding)


def _read(file: Path, part: InputPart, columns: Sequence[str], encoding: str, bad: Bad) -> Numbered:
    if kind(file) == ".parquet":
        return arrow.parquet(file, part.start, part.end)
    numbered = _lines(file, part, encoding, bad)
    if kind(file) == ".jsonl":
        return json_rows(file, numbered, bad)
    if kind(file) not in (".csv", ".tsv"):
        return ((number, {TEXT: line}) for number, line in numbered)
    separator, header = _table_layout(file, columns, encoding)
    if header is None and part.line > 1:
        header = next(records(file, separator, stop, encoding))[1]
    cells = (
        csv_records(file, numbered, bad, separator) if separator else split_lines(numbered, "\t")
    )
    return with_names(file, cells, columns, header, bad)


def _lines(file: Path, part: InputPart, encoding: str, bad: Bad) -> Iterator[tuple[int, str]]:
    with unpacked(file) as stream:
        if part.start:
            stream.seek(part.start)
        yield from lines(
            stream, f"{file}", bad, encoding, first=part.line, offset=part.start, end=part.end
        )
