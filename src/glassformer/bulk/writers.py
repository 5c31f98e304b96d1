"""The output of a shard: rows with their new columns, as JSON lines or Parquet."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.bulk.manifest import BulkJob
from glassformer.bulk.tasks import TASKS
from glassformer.data.parts import first_row
from glassformer.data.readers import arrow
from glassformer.data.readers.files import kind
from glassformer.data.readers.tables import Row
from glassformer.data.table_files import Cells
from glassformer.errors import shown

JSONL, PARQUET = "jsonl", "parquet"
FORMATS = (JSONL, PARQUET)
ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
GROUP_BYTES = 2**25  # of a row group, which is in memory until it is written
# The Parquet type of a JSON value; a list or an object is written as its JSON text.
TYPES: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "double"}
FITS: dict[str, tuple[type, ...]] = {"double": (float, int)} | {
    name: (kind,) for kind, name in TYPES.items() if kind is not float
}


class RowWriter(ABC):
    """Abstract; writes the rows of one file as they come."""

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

    def __init__(self, file: BinaryIO) -> None:
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
        types: the columns of the input; None for those that are written as JSON text
        checked: whether a row may differ from them, as the objects of a .jsonl file may
        added: the name of the new column, and the type of the numbers in its lists
    """

    def __init__(
        self, file: BinaryIO, types: Mapping[str, Any], added: tuple[str, str], *, checked: bool
    ) -> None:
        import pyarrow
        import pyarrow.parquet

        name, number = added
        self.types, self.checked = types, checked
        self.added = with_cells(dict.fromkeys(types), {name: None}).keys() - types.keys()
        fields = {key: kind or pyarrow.string() for key, kind in types.items()}
        fields |= {each: pyarrow.list_(getattr(pyarrow, number)()) for each in self.added}
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
                return f"{name} = {shown(value)}: in the first row of the file it is {kind}"
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
        if value is None or name in self.added or self.types[name] is not None:
            return value
        return json.dumps(value, ensure_ascii=False)

    def _flush(self) -> None:
        if self.batches:
            self.writer.write_table(self.pyarrow.Table.from_batches(self.batches))
            self.batches.clear()


def open_writer(job: BulkJob, stream: BinaryIO, source: Path) -> RowWriter:
    """A writer of the job's format for the rows of this file."""
    added = TASKS[job.task].parquet
    if job.format == JSONL or added is None:
        return JsonWriter(stream)
    if kind(source) == ".parquet":
        types = {field.name: field.type for field in arrow.schema(source)}
        return ParquetWriter(stream, types, added, checked=False)
    first = first_row(source, job.columns, job.encoding) or {}
    return ParquetWriter(
        stream, {name: _type(value) for name, value in first.items()}, added,
        checked=kind(source) == ".jsonl",
    )  # fmt: skip


def with_cells(row: Row, cells: Cells) -> Row:
    """The row with more columns; where it has one of this name, predicted_NAME is added."""
    columns = dict(row)
    for name, cell in cells.items():
        free = name
        while free in columns:
            free = f"predicted_{free}"
        columns[free] = cell
    return columns


def _type(value: Any) -> Any:
    import pyarrow

    name = TYPES.get(type(value))
    return None if name is None else pyarrow.type_for_alias(name)
