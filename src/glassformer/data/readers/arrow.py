"""Parquet files and saved Hugging Face datasets, read with pyarrow (the extra `data`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, InputError
from glassformer.strictjson import parse

BATCH = 1024  # rows in memory at a time


def parquet(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a file, and its location for errors."""
    if file.suffix.lower() != ".parquet":
        raise InputError(f"{file}: unpack it first: Parquet is compressed already")
    with _arrow(file) as pyarrow, pyarrow.parquet.ParquetFile(file) as table:
        yield from _rows(table.iter_batches(batch_size=BATCH), file)


def saved(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same for what `Dataset.save_to_disk` wrote, in the order of state.json."""
    with _arrow(folder) as pyarrow:
        yield from _rows(_streams(folder, pyarrow), folder)


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


def _rows(batches: Iterable[Any], source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            yield f"{source}: row {number}", row


@contextmanager
def _arrow(source: Path) -> Iterator[Any]:
    try:
        import pyarrow
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
