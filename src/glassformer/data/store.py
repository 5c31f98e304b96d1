"""Token ids on disk: one long row of numbers and where each document begins, memory-mapped.

    store/
      store.json            the metadata, with the tokenizer's fingerprint
      tokens-00000.bin      the ids of a shard's documents, end to end
      tokens-00000.idx      where each begins (and, last, where the shard ends)
      sentences-00000.…     the same for the starts of sentences, where they are kept

A column is such a row; translations have two, `source` and `target`; labelled texts have `labels`
beside their tokens. A shard is complete or absent: preparation resumes after the last one. The
metadata has the sha256 of each file; `verify` finds what has changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter, ValidationError

from glassformer.data.fingerprints import MOST_FILES, Fingerprint
from glassformer.durable import sweep, write_whole
from glassformer.errors import CheckpointError, InputError, shown
from glassformer.strict import plainly
from glassformer.strictjson import parse

Numbers = npt.NDArray[np.int64]
META = "store.json"
OFFSET = "<i8"  # the dtype of a position in the row
VERSION = 2
# Columns that hold no token ids, and their dtypes on disk: starts of sentences in their document,
# class indices (or the span of an answer), all classes of a text, regression targets.
OTHERS = {"sentences": "<i4", "labels": "<i4", "several": "<i4", "values": "<f8"}
ColumnName = Literal[
    "tokens", "second", "source", "target", "question", "sentences", "labels", "several", "values"
]
NO_LABEL = -100  # of a token between the labelled ones
# What a number of each column is, for errors.
MEANS = dict.fromkeys(get_args(ColumnName), "token id") | {
    "sentences": "position in its text", "labels": "label", "several": "label",
    "values": "finite number",
}  # fmt: skip
MOST_META = 1 << 26  # bytes of the metadata


@dataclass
class Meta:
    __pydantic_config__ = ConfigDict(extra="forbid")

    fingerprint: str
    kind: Literal["<u2", "<u4"]  # the dtype of an id on disk
    columns: list[ColumnName]
    end: list[int] = field(default_factory=list)  # the tokens appended to each document
    documents: list[int] = field(default_factory=list)  # in each shard
    tokens: dict[str, list[int]] = field(default_factory=dict)  # column → in each shard
    digests: dict[str, str] = field(default_factory=dict)  # file → its sha256
    sources: list[str] = field(default_factory=list)  # what was requested
    files: list[Fingerprint] = field(default_factory=list)  # the files that were read
    labels: list[str] = field(default_factory=list)  # the names of the classes, by index
    source_documents: list[int] = field(default_factory=list)  # of each source, if they have shares
    done: bool = False
    version: int = VERSION


class Column:
    """A ragged array: item i is one list of ids; all lists together are one long row."""

    def __init__(self, folder: Path, name: str, kind: str, documents: Sequence[int]) -> None:
        self._rows: list[Any] = []
        self._wide = np.float64 if np.dtype(kind).kind == "f" else np.int64
        self.starts: list[Numbers] = []
        self.bases = [0]
        for shard, count in enumerate(documents):
            index = folder / f"{name}-{shard:05d}.idx"
            begins = _memory_map(index, OFFSET)
            self._rows.append(_memory_map(index.with_suffix(".bin"), np.dtype(kind)))
            if len(begins) != count + 1 or begins[0] != 0 or (begins[1:] < begins[:-1]).any():
                raise damaged(index, f"it is not an index of {count:,} documents")
            if begins[-1] != len(self._rows[-1]):
                raise damaged(index.with_suffix(".bin"), f"its index has {begins[-1]:,} numbers")
            self.starts.append(begins)
            self.bases.append(self.bases[-1] + int(begins[-1]))

    def __len__(self) -> int:
        """The number of ids."""
        return self.bases[-1]

    @cached_property
    def offsets(self) -> Numbers:
        """Where each document begins in the long row, and where the last one ends."""
        parts = [begins[:-1] + base for begins, base in zip(self.starts, self.bases, strict=False)]
        return np.concatenate([*parts, np.array([len(self)])])

    @cached_property
    def row(self) -> npt.NDArray[Any]:
        """The long row, in memory."""
        return np.concatenate([*self._rows, np.zeros(0, dtype=np.int32)])

    def lists(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the ids of each document."""
        for row, begins in zip(self._rows, self.starts, strict=True):
            for begin, end in pairwise(begins.tolist()):
                yield row[begin:end]

    def shards(self) -> Iterator[tuple[npt.NDArray[Any], Numbers]]:
        """Yield the row of each shard, and where its documents begin."""
        yield from zip(self._rows, self.starts, strict=True)

    def take(self, spans: Numbers) -> npt.NDArray[Any]:
        """The ids of many spans (start, length) of the long row, end to end."""
        return self.at(places(spans))

    def at(self, positions: Numbers) -> npt.NDArray[Any]:
        """The ids at these positions of the long row."""
        if len(self._rows) == 1:
            return self._rows[0][positions].astype(self._wide, copy=False)  # type: ignore[no-any-return]
        shards = np.searchsorted(self.bases, positions, side="right") - 1
        values = np.empty(len(positions), dtype=self._wide)
        for shard in np.flatnonzero(np.bincount(shards)):
            in_shard = shards == shard
            values[in_shard] = self._rows[shard][positions[in_shard] - self.bases[shard]]
        return values


def places(spans: Numbers) -> Numbers:
    """Every position in many spans (start, length), one span after the other."""
    starts, sizes = spans[:, 0], spans[:, 1]
    return np.arange(sizes.sum()) + np.repeat(starts - (sizes.cumsum() - sizes), sizes)


class Store:
    """A prepared dataset, opened without reading it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        meta = read_meta(self.folder)
        if meta is None or not meta.done:
            raise InputError(f"{folder}: no prepared data: run glassformer data prepare")
        self.meta = meta
        self.columns: dict[str, Column] = {
            name: Column(self.folder, name, _dtype(name, self.meta.kind), self.meta.documents)
            for name in self.meta.columns
        }

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise InputError(
                f"{self.folder}: no column {name!r}, there are {', '.join(self.columns)}: "
                "prepare the data for this objective"
            )
        return self.columns[name]

    @property
    def documents(self) -> int:
        return sum(self.meta.documents)

    @property
    def end(self) -> list[int]:
        """The tokens appended to each document."""
        return self.meta.end

    @cached_property
    def layout(self) -> str:
        """A hash of where documents and sentences begin, and of the labels."""
        digest = hashlib.sha256()
        for name, column in self.columns.items():
            for begins in column.starts:
                digest.update(begins.tobytes())
            digest.update(column.row.tobytes() if name in OTHERS else b"")
        return digest.hexdigest()

    def check(self, fingerprint: str) -> None:
        """InputError if another tokenizer made the ids: they mean something only to their own."""
        if self.meta.fingerprint != fingerprint:
            raise InputError(
                f"{self.folder}: prepared with another tokenizer ({self.meta.fingerprint:.19}…, "
                f"not {fingerprint:.19}…): prepare the data again with this one"
            )

    def verify(self, vocab_size: int) -> None:
        """InputError if a file differs from its sha256, or holds a number that cannot be one of
        this tokenizer's ids, a label or a position. Reads the whole store once."""
        for name, column in self.columns.items():
            for shard, (row, begins) in enumerate(column.shards()):
                file = f"{name}-{shard:05d}"
                for each, data in ((f"{file}.bin", row), (f"{file}.idx", begins)):
                    if hashlib.sha256(data.data).hexdigest() != self.meta.digests.get(each):
                        raise damaged(self.folder / each, f"its sha256 differs from {META}")
                low, high = self._bounds(name, shard, vocab_size, np.diff(begins))
                if len(row) and not _within(row, low, high):
                    raise damaged(
                        self.folder / f"{file}.bin", f"a number in it is no {MEANS[name]}"
                    )

    def _bounds(self, name: str, shard: int, vocab_size: int, sizes: Numbers) -> tuple[Any, Any]:
        """The least value in a column, and what all values are below."""
        labels = len(self.meta.labels)
        if name == "values":
            return np.finfo(np.float64).min, np.inf
        if name == "several":
            return 0, labels
        if name == "sentences" or (name == "labels" and "question" in self.columns):
            texts = np.diff(self["tokens"].starts[shard])  # positions in each text
            return -1 if name == "labels" else 0, np.repeat(texts, sizes)
        return (NO_LABEL, labels) if name == "labels" else (0, vocab_size)


class Writer:
    """Fills a store shard by shard; the metadata file, replaced last, lists the complete shards."""

    def __init__(self, folder: Path, meta: Meta) -> None:
        self.folder, self.meta = folder, meta
        sweep(folder)
        self._clear()

    def _clear(self) -> None:
        # As bytes: a shard of Python numbers would take twenty times the memory.
        self.rows: dict[str, bytearray] = {name: bytearray() for name in self.meta.columns}
        self.ends: dict[str, array[int]] = {name: array("q", [0]) for name in self.meta.columns}
        self.size = 0

    def add(self, document: dict[str, Sequence[int]]) -> None:
        """Add a document: its ids, by column."""
        for name, ids in document.items():
            self.rows[name] += np.asarray(ids, dtype=_dtype(name, self.meta.kind)).tobytes()
            self.ends[name].append(self.ends[name][-1] + len(ids))
            self.size += len(ids)

    def close_shard(self, *, done: bool = False) -> None:
        """Write what was added as a shard, if anything was; `done` completes the store."""
        number = len(self.meta.documents)
        if len(next(iter(self.ends.values()))) > 1:
            for name, row in self.rows.items():
                ends = np.asarray(self.ends[name], dtype=OFFSET)
                for file, data in (("bin", row), ("idx", ends.tobytes())):
                    path = self.folder / f"{name}-{number:05d}.{file}"
                    write_whole(path, data)
                    self.meta.digests[path.name] = hashlib.sha256(data).hexdigest()
                self.meta.tokens.setdefault(name, []).append(int(ends[-1]))
            self.meta.documents.append(len(ends) - 1)
            self._clear()
        self.meta.done = done
        write_whole(self.folder / META, json.dumps(asdict(self.meta), indent=2).encode())


def read_meta(folder: Path) -> Meta | None:
    """The metadata of a store; None if there is none."""
    path = folder / META
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            fields = parse(file.read(MOST_META), str(path), values=MOST_META, objects=MOST_FILES)
    except (CheckpointError, OSError) as error:
        raise InputError(f"{error}: {again(folder)}") from None
    if fields.get("version") != VERSION:
        raise damaged(path, f"version {shown(fields.get('version'))}")
    try:
        return TypeAdapter(Meta).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise damaged(path, f"{name}: {plainly(first['msg'])}") from None


def damaged(path: Path, what: str) -> InputError:
    """An error that names a file of a store, and the remedy."""
    return InputError(f"{path}: {what}: {again(path.parent)}")


def again(folder: Path) -> str:
    return f"delete {folder} and prepare the data again"


def _within(row: npt.NDArray[Any], low: Any, high: Any) -> bool:
    """Whether all numbers are at least `low` and below `high`, which may be one for each."""
    below = row < high if isinstance(high, np.ndarray) else row.max() < high
    return bool(row.min() >= low) and bool(np.all(below))


def _dtype(name: str, kind: str) -> str:
    return OTHERS.get(name, kind)


def _memory_map(path: Path, kind: Any) -> Any:
    try:
        if not path.is_file():  # a FIFO would block
            raise damaged(path, "there is no such file")
        if path.stat().st_size == 0:
            return np.zeros(0, dtype=kind)
        # As a plain array: a memmap creates another one, in Python, whenever it is indexed.
        return np.asarray(np.memmap(path, dtype=kind, mode="r"))
    except (OSError, ValueError) as error:
        raise damaged(path, str(error)) from None
