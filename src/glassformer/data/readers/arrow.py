"""Parquet files and saved Hugging Face datasets, read with pyarrow (the extra `data`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.data.readers.files import MOST_COLUMNS, MOST_LINE, most_unpacked
from glassformer.errors import CheckpointError, InputError, shown
from glassformer.strictjson import parse

BATCH = 1024  # rows that are decoded at a time
MAX_BATCH_BYTES = (
    2**23
)  # bytes of the rows that are Python objects at a time, unless one row has more


def parquet(
    file: Path, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row of a file and its number, from 1: those after the first `start`, up to number
    `end`. Only the row groups that they are in are read."""
    if file.suffix.lower() != ".parquet":
        raise InputError(f"{file}: unpack it first: Parquet is compressed already")
    with _arrow(file) as pyarrow:
        metadata = pyarrow.parquet.read_metadata(file)
        texts = _check_size(file, metadata)
        end = metadata.num_rows if end is None else end
        first, groups = _groups(metadata, start, end)
        # A text that many rows share is stored once: it must not be copied for each of them.
        with pyarrow.parquet.ParquetFile(file, read_dictionary=texts) as table:
            batches = table.iter_batches(batch_size=BATCH, row_groups=groups)
            yield from _rows(_between(batches, start - first, end - first), file, pyarrow, start)


def count_rows(file: Path) -> int:
    """The number of rows of a Parquet file."""
    with _arrow(file) as pyarrow:
        return int(pyarrow.parquet.read_metadata(file).num_rows)


def saved(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same for what `Dataset.save_to_disk` wrote, in the order of state.json."""
    with _arrow(folder) as pyarrow:
        yield from _rows(_streams(folder, pyarrow), folder, pyarrow)


def schema(file: Path) -> Any:
    """The names and types of a Parquet file's columns."""
    with _arrow(file) as pyarrow:
        return pyarrow.parquet.read_schema(file)


def check_installed(path: Path) -> None:
    """InputError if pyarrow is missing."""
    with _arrow(path):
        pass


def parquet_bytes(names: Sequence[str], rows: Sequence[dict[str, Any]], known: Any) -> bytes:
    """A Parquet file of these rows; columns in the schema `known` keep their types."""
    import pyarrow
    import pyarrow.parquet

    types = {} if known is None else {field.name: field.type for field in known}
    columns = {
        name: pyarrow.array([row.get(name) for row in rows], types.get(name)) for name in names
    }
    file = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return bytes(file.getvalue())


def _groups(metadata: Any, start: int, end: int) -> tuple[int, list[int]]:
    """The row groups with the rows from `start` to `end`, and the row that they begin with."""
    groups, first, before = list[int](), 0, 0
    for i in range(metadata.num_row_groups):
        after = before + metadata.row_group(i).num_rows
        if before < end and after > start:
            first = first if groups else before
            groups.append(i)
        before = after
    return first, groups


def _between(batches: Iterable[Any], start: int, end: int) -> Iterator[Any]:
    """The rows from `start` to `end` of these batches."""
    before = 0
    for batch in batches:
        first, last = max(start - before, 0), min(end - before, batch.num_rows)
        before += batch.num_rows
        if first < last:
            yield batch.slice(first, last - first)
        if before >= end:
            return


def _streams(folder: Path, pyarrow: Any) -> Iterator[Any]:
    for name in _stream_files(folder / "state.json"):
        with pyarrow.memory_map(str(folder / name)) as source:
            for batch in pyarrow.ipc.open_stream(source):
                for start in range(0, batch.num_rows, BATCH):
                    yield batch.slice(start, BATCH)


def _stream_files(file: Path) -> list[str]:
    try:
        state = parse(file.read_bytes(), f"{file}")
        names = [entry["filename"] for entry in state["_data_files"]]
    except (CheckpointError, OSError, KeyError, TypeError) as error:
        raise InputError(f"{file}: this is not a saved Hugging Face dataset: {error}") from None
    if state.get("_indices_data_files"):
        raise InputError(f"{file}: the rows are reordered: save dataset.flatten_indices() instead")
    for name in names:
        if not isinstance(name, str) or name != Path(name).name:
            raise InputError(f"{file}: {name!r} is not a file of this folder")
    return names


def _check_size(file: Path, metadata: Any) -> list[str]:
    """InputError if the file unpacks to far more than its size; returns its columns of texts.

    The metadata of single columns is not looked at: if it is damaged, pyarrow aborts the process.
    """
    size, columns = file.stat().st_size, metadata.schema
    groups = (metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    needed, rows, most = max(groups, default=0), metadata.num_rows, most_unpacked(size)
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{file}: more than {MOST_COLUMNS:,} columns: write fewer")
    if needed > most or rows > most:
        raise InputError(
            f"{file}: {rows:,} rows, and a row group that unpacks to {needed:,} bytes, far more "
            f"than the file's {size:,}: save it as .jsonl, if you trust it"
        )
    texts = (each for each in columns if each.physical_type == "BYTE_ARRAY")
    return [each.path for each in texts]


def _rows(
    batches: Iterable[Any], source: Path, pyarrow: Any, number: int = 0
) -> Iterator[tuple[int, dict[str, Any]]]:
    for batch in batches:
        for column in batch.schema:
            if what := _unsupported(pyarrow.types, column.type):
                raise InputError(
                    f"{source}: column {shown(column.name)}: {what} can unpack to far more than "
                    "the file: save it as .jsonl, if you trust it"
                )
        batch.validate(full=True)  # offsets and UTF-8, which the file may have wrong
        whole = sum(_bytes(pyarrow, column) for column in batch.columns) <= MAX_BATCH_BYTES
        for start in range(0, batch.num_rows, batch.num_rows if whole else 1):
            part = batch if whole else batch.slice(start, 1)
            needed = 0 if whole else sum(_bytes(pyarrow, column) for column in part.columns)
            if needed > MOST_LINE:
                raise InputError(
                    f"{source}: row {number + 1} has {needed:,} bytes, more than {MOST_LINE:,}"
                )
            for row in part.to_pylist():
                number += 1
                yield number, row


def _bytes(pyarrow: Any, array: Any) -> int:
    """The bytes of an array whose texts are written out, however often they are repeated."""
    types, compute, kind = pyarrow.types, pyarrow.compute, array.type
    if types.is_dictionary(kind) and _is_text(pyarrow, kind.value_type):
        lengths = compute.take(compute.binary_length(array.dictionary), array.indices)
        return int(compute.sum(lengths).as_py() or 0)
    if types.is_struct(kind):
        return sum(_bytes(pyarrow, field) for field in array.flatten())
    if types.is_nested(kind) and hasattr(array, "flatten"):
        return _bytes(pyarrow, array.flatten()) + 8 * len(array)
    return int(array.nbytes) + 8 * len(array)


def _unsupported(types: Any, kind: Any) -> str | None:
    """A type whose values are repeated without a bound; datasets are not saved with them."""
    if types.is_run_end_encoded(kind):
        return "run-end encoded values"
    if types.is_dictionary(kind) and types.is_nested(kind.value_type):
        return "a dictionary of nested values"
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return "a list view"
    inner = (kind.field(i).type for i in range(kind.num_fields)) if types.is_nested(kind) else ()
    return next((what for each in inner if (what := _unsupported(types, each))), None)


def _is_text(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


@contextmanager
def _arrow(source: Path) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{source}: this format needs pyarrow: pip install 'glassformer[data]'"
        ) from None
    try:
        yield pyarrow
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be read: {' '.join(str(error).split())}") from None
