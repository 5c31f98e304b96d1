"""The output of a shard: rows with their new columns, as JSON lines or Parquet."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.bulk.manifest import BulkJob
from glassformer.bulk.tasks import TASKS
from glassformer.data.parts import read_rows
from glassformer.data.readers import arrow
from glassformer.data.readers.files import kind
from glassformer.data.readers.tables import Row
from glassformer.data.table_files import Cells
from glassformer.errors import InputError, shown

JSONL, PARQUET = "jsonl", "parquet"
FORMATS = (JSONL, PARQUET)
ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
FIRST_ROWS = 100  # which decide the types of a Parquet file's columns
GROUP_BYTES = 2**25  # of a row group, which is in memory until it is written
# The Parquet type of a JSON value; a list or an object is written as its JSON text.
TYPES: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "double"}
FITS: dict[str, tuple[type, ...]] = {"double": (float, int)} | {
    name: (kind,) for kind, name in TYPES.items() if kind is not float
}


class RowWriter(ABC):
    """Abstract; writes rows of one file as they come.

    Args:
        names: the columns of the first row of the file
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)

    def column(self, name: str) -> str:
        """What a new column is called, in all rows of the file: predicted_NAME, if the first row
        has a column of this name."""
        while name in self.names:
            name = f"predicted_{name}"
        return name

    def joined(self, row: Row, cells: Cells) -> Row | InputError:
        """The row with its new columns; InputError if it has one of these names already."""
        new = {self.column(name): cell for name, cell in cells.items()}
        if taken := [name for name in new if name in row]:
            return InputError(
                f"field {shown(taken[0])}: a new column has this name, as the first row of the "
                "file has no such field: rename it"
            )
        return {**row, **new}

    @abstractmethod
    def mistake(self, row: Row) -> str | None:
        """What is wrong with a row of the input that cannot be written; None if it can."""

    @abstractmethod
    def write(self, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Write what belongs at the end of the file."""


class JsonWriter(RowWriter):
    """One object per line."""

    def __init__(self, file: BinaryIO, names: Iterable[str]) -> None:
        super().__init__(names)
        self.file = file

    def mistake(self, row: Row) -> str | None:
        return None

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.file.write(ENCODER.encode(row).encode() + b"\n")

    def close(self) -> None:
        pass


class ParquetWriter(RowWriter):
    """All rows have the same columns.

    Args:
        types: the columns of the first row of the file; None: written as JSON text
        checked: whether a row may differ from them, as the objects of a .jsonl file may
        added: the name of the new column, and the type of the numbers in its lists
    """

    def __init__(
        self, file: BinaryIO, types: Mapping[str, Any], added: tuple[str, str], *, checked: bool
    ) -> None:
        import pyarrow
        import pyarrow.parquet

        super().__init__(types)
        name, number = added
        self.types, self.checked, self.added = types, checked, self.column(name)
        fields = {key: kind or pyarrow.string() for key, kind in types.items()}
        fields[self.added] = pyarrow.list_(getattr(pyarrow, number)())
        self.pyarrow, self.schema = pyarrow, pyarrow.schema(fields.items())
        self.writer = pyarrow.parquet.ParquetWriter(file, self.schema)
        self.batches: list[Any] = []

    def mistake(self, row: Row) -> str | None:
        for name, value in row.items() if self.checked else ():
            if name not in self.types:
                known = ", ".join(map(shown, self.types))
                return f"field {shown(name)}: the first row of the file has {known}"
            kind = self.types[name]
            if value is None or kind is None:
                continue
            fits = type(value) in FITS[str(kind)]
            if not fits or (type(value) is int and not -(1 << 63) <= value < 1 << 63):
                return f"{name} = {shown(value)}: in the first rows of the file it is {kind}"
        return None

    def write(self, rows: Sequence[Row]) -> None:
        columns = [
            self.pyarrow.array([self._cell(row, field.name) for row in rows], field.type)
            for field in self.schema
        ]
        self.batches.append(self.pyarrow.RecordBatch.from_arrays(columns, schema=self.schema))
        if sum(batch.nbytes for batch in self.batches) > GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self.writer.close()

    def _cell(self, row: Row, name: str) -> Any:
        value = row.get(name)
        if value is None or name == self.added or self.types[name] is not None:
            return value
        return json.dumps(value, ensure_ascii=False)

    def _flush(self) -> None:
        if self.batches:
            self.writer.write_table(self.pyarrow.Table.from_batches(self.batches))
            self.batches.clear()


def open_writer(job: BulkJob, stream: BinaryIO, source: Path) -> RowWriter:
    """A writer of the job's format for the rows of this file."""
    added, types = TASKS[job.task].parquet, dict[str, Any]()
    if kind(source) == ".parquet":
        first = types = {field.name: field.type for field in arrow.schema(source)}
    else:
        first = _first_values(source, job)
    if job.format == JSONL or added is None:
        return JsonWriter(stream, first)
    types = types or {name: _type(value) for name, value in first.items()}
    return ParquetWriter(stream, types, added, checked=kind(source) == ".jsonl")


def _first_values(source: Path, job: BulkJob) -> Row:
    """The fields of the first row, each with its first value that is not null."""
    rows = islice(read_rows(source, job.columns, job.encoding), FIRST_ROWS)
    values = dict(next(rows, {}))
    for row in rows:
        unknown = [name for name, value in values.items() if value is None]
        if not unknown:
            break
        values |= {name: row.get(name) for name in unknown}
    return values


def _type(value: Any) -> Any:
    import pyarrow

    name = TYPES.get(type(value))
    return None if name is None else pyarrow.type_for_alias(name)
