"""Predictions for a table: read a column of texts, write the table back with more columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from glassformer.data.readers import arrow
from glassformer.data.readers.files import UTF8, kind, stop
from glassformer.data.readers.tables import (
    KINDS,
    Row,
    csv_separator,
    located,
    numbered_header,
    records,
)
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError, shown

Text = str | tuple[str, str]
Cells = Mapping[str, Any]  # by the names of their columns
T = TypeVar("T")
VECTOR = "vector"  # the column that a .npy file holds


@dataclass(frozen=True)
class DataTable:
    """The rows of a table, as they are in its file, and the text or pair of texts of each."""

    names: list[str]
    rows: list[Row]
    texts: list[Any]  # strings; pairs of strings, if two columns were asked for
    has_header: bool = True  # False: the columns of the file are called 1, 2, 3 …
    separator: str = ","  # of a .csv file
    schema: Any = None  # pyarrow's, of a .parquet file

    def apply(self, call: Callable[[list[Any]], Iterable[T]]) -> list[T | None]:
        """What `call` returns for the texts; None in the place of each empty one."""
        full = [text for text in self.texts if not is_empty(text)]
        results = iter(call(full) if full else ())
        return [None if is_empty(text) else next(results) for text in self.texts]

    def with_cells(self, cells: Sequence[Cells | None]) -> DataTable:
        """The table with more columns; where it has one of this name, predicted_NAME is added."""
        names, columns = list(self.names), dict[str, str]()
        for name in dict.fromkeys(name for each in cells for name in each or ()):
            columns[name] = name
            while columns[name] in names:
                columns[name] = f"predicted_{columns[name]}"
            names.append(columns[name])
        rows = [
            {**row, **{column: (each or {}).get(name) for name, column in columns.items()}}
            for row, each in zip(self.rows, cells, strict=True)
        ]
        return replace(self, names=names, rows=rows)


def is_empty(text: Text) -> bool:
    """Whether a text, or one of a pair, has nothing to read in it."""
    return not all(map(str.strip, [text] if isinstance(text, str) else text))


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it has columns."""
    return kind(path) in KINDS


def table_of(texts: Sequence[Text], names: tuple[str, str] = ("text", "text_pair")) -> DataTable:
    """A table of these texts alone: a column for them, or two for pairs."""
    rows = [dict(zip(names, _both(text), strict=False)) for text in texts]
    return DataTable(list(dict.fromkeys(name for row in rows for name in row)), rows, list(texts))


def read_table(path: Path, columns: Sequence[str], encoding: str = UTF8) -> DataTable:
    """The table of a .jsonl, .csv, .tsv or .parquet file.

    Args:
        columns: that of the texts, or the two of pairs; their numbers, from 1, if the file has no
            header line
        encoding: of the file
    """
    if not is_table(path):
        raise ConfigError(
            f"{path}: column {columns[0]!r}: only a table has columns, and its name ends in one of "
            f"{', '.join(KINDS)}"
        )
    separator = csv_separator(path, encoding) if kind(path) == ".csv" else None
    header = numbered_header(path, columns, separator, encoding)
    rows, texts = list[Row](), list[Any]()
    for where, row in located(path, columns, header, separator, stop, encoding):
        cells = ["" if row[name] is None else row[name] for name in columns]
        for name, cell in zip(columns, cells, strict=True):
            if not isinstance(cell, str):
                raise InputError(f"{where}: {name} = {shown(cell)}: write a text")
        rows.append(row)
        texts.append(cells[0] if len(columns) == 1 else tuple(cells))
    if all(map(is_empty, texts)):
        raise InputError(f"{path}: there is no text in column {columns[0]!r}")
    schema = arrow.schema(path) if kind(path) == ".parquet" else None
    names = list(dict.fromkeys(name for row in rows for name in row))
    return DataTable(names, rows, texts, header is None, separator or ",", schema)


def which_column(path: Path, encoding: str = UTF8) -> InputError:
    """What to say where a table is read without the name of a column."""
    if kind(path) in (".csv", ".tsv"):
        _, cells = next(records(path, None, stop, encoding), (1, []))
    else:
        cells = list(next(located(path, encoding=encoding))[1])
    names = ", ".join(map(shown, cells))
    return InputError(
        f"{path}: this is a table: write --column and the name of the column to read (or its "
        f"number, from 1, if there is no header line): {names}"
    )


def check_out(out: Path, source: Path | None, *, vectors: bool = False) -> None:
    """ConfigError, before any work, if the table cannot be written there."""
    kinds = (*KINDS, ".npy") if vectors else KINDS
    if out.suffix.lower() not in kinds:
        raise ConfigError(f"--out {out}: write a name that ends in {', '.join(kinds)}")
    if source is not None and out.resolve() == source.resolve():
        raise ConfigError(f"--out {out}: this is the file to read: write another name")
    if out.suffix.lower() == ".parquet":
        arrow.check_installed(out)


def vector_cells(vector: Sequence[float], out: Path) -> Cells:
    """A vector for this file: text formats have a column for each number."""
    if out.suffix.lower() in (".csv", ".tsv"):
        return {str(i): number for i, number in enumerate(vector)}
    return {VECTOR: vector}


def write_table(table: DataTable, out: Path) -> None:
    """Write a table in the format that the file's name says."""
    write_whole(out, WRITERS[out.suffix.lower()](table))


def _both(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def _lines(table: DataTable) -> list[list[str]]:
    header = [table.names] if table.has_header else []
    return header + [[_plain(row.get(name)) for name in table.names] for row in table.rows]


def _plain(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return "" if cell is None else json.dumps(cell, ensure_ascii=False, default=str)


def _csv(table: DataTable) -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=table.separator, lineterminator="\n").writerows(_lines(table))
    return file.getvalue().encode()


def _tsv(table: DataTable) -> bytes:
    lines = _lines(table)
    for number, cells in enumerate(lines, 1):
        for name, cell in zip(table.names, cells, strict=True):
            if any(sign in cell for sign in "\t\n\r"):
                raise InputError(
                    f"row {number}: {name} = {shown(cell)}: a .tsv file cannot hold tabs and line "
                    "ends: write a .csv or .jsonl file"
                )
    return "".join("\t".join(cells) + "\n" for cells in lines).encode()


def _jsonl(table: DataTable) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False, default=str) for row in table.rows)
    return "".join(f"{line}\n" for line in lines).encode()


def _parquet(table: DataTable) -> bytes:
    return arrow.parquet_bytes(table.names, table.rows, table.schema)


def _npy(table: DataTable) -> bytes:
    import numpy as np

    vectors = [row[VECTOR] for row in table.rows]
    width = next(len(vector) for vector in vectors if vector is not None)
    array = np.full((len(vectors), width), np.nan, np.float32)
    for place, vector in zip(array, vectors, strict=True):
        if vector is not None:
            place[:] = vector
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


WRITERS: dict[str, Callable[[DataTable], bytes]] = {
    ".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".parquet": _parquet, ".npy": _npy,
}  # fmt: skip
