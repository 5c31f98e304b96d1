"""Parquet files and saved Hugging Face datasets, read with pyarrow (the extra `data`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.data.readers.files import most_unpacked
from glassformer.errors import CheckpointError, InputError
from glassformer.strictjson import parse

BATCH, NESTED = 1024, 64  # rows in memory at a time; of a file with lists in its cells
HELD = 2**23  # bytes of the rows that are Python objects at a time
MOST_CELLS = 2**21  # cells of a row group with lists, unless the file is large


def parquet(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a file, and its location for errors."""
    if file.suffix.lower() != ".parquet":
        raise InputError(f"{file}: unpack it first: Parquet is compressed already")
    with _arrow(file) as pyarrow:
        types = pyarrow.parquet.read_schema(file)
        # A text that many rows share is stored once: it must not be copied for each of them.
        texts = [field.name for field in types if _is_text(pyarrow, field.type)]
        with pyarrow.parquet.ParquetFile(file, read_dictionary=texts) as table:
            nested = _check_size(file, table.metadata)
            batches = table.iter_batches(batch_size=NESTED if nested else BATCH)
            yield from _rows(batches, file, pyarrow)


def saved(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
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


def _is_text(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))


def _check_size(file: Path, metadata: Any) -> bool:
    """InputError if a row group unpacks to far more than the file; returns whether cells hold
    lists."""
    size, nested = file.stat().st_size, False
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        columns = [group.column(j) for j in range(group.num_columns)]
        lists = [each for each in columns if "." in each.path_in_schema]
        nested = nested or bool(lists)
        cells = max((each.num_values for each in lists), default=0)
        needed = sum(each.total_uncompressed_size for each in columns)
        if needed > most_unpacked(size) or cells > max(MOST_CELLS, size):
            raise InputError(
                f"{file}: row group {i} unpacks to {needed:,} bytes and {cells:,} cells, far more "
                f"than the file's {size:,}: write smaller row groups, if you trust it"
            )
    return nested


def _rows(
    batches: Iterable[Any], source: Path, pyarrow: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    for batch in batches:
        largest = sum(_largest(pyarrow, column) for column in batch.columns)
        rows = max(1, HELD // max(1, largest))
        for start in range(0, batch.num_rows, rows):
            for row in batch.slice(start, rows).to_pylist():
                number += 1
                yield f"{source}: row {number}", row


def _largest(pyarrow: Any, column: Any) -> int:
    """The bytes of the largest cell; of nested columns those of all."""
    values = column.dictionary if pyarrow.types.is_dictionary(column.type) else column
    if not _is_text(pyarrow, values.type):
        return int(values.nbytes)
    return int(pyarrow.compute.max(pyarrow.compute.binary_length(values)).as_py() or 0)


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
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{source}: cannot be read: {' '.join(str(error).split())}") from None
