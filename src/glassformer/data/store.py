"""Token ids on disk: one long row of numbers and where each document begins, memory-mapped.

    store/
      store.json            what is in it, and the tokenizer's fingerprint
      tokens-00000.bin      the ids of a shard's documents, end to end
      tokens-00000.idx      where each begins (and, last, where the shard ends)
      sentences-00000.…     the same for the beginnings of sentences, where they are kept

A column is such a row; translations have two, `source` and `target`; labelled texts have `labels`
beside their tokens. A shard is whole or absent: preparing goes on after the last whole one.
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
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, TypeAdapter, ValidationError

from glassformer.data.fingerprints import Fingerprint
from glassformer.durable import sweep, write_whole
from glassformer.errors import InputError, shown
from glassformer.strictjson import parse

Numbers = npt.NDArray[np.int64]
META = "store.json"
PLACE = "<i8"  # the type of a place in the row
VERSION = 1
# Columns that hold no token ids, and their types on disk: beginnings of sentences inside their
# document, numbers of classes (or where an answer is), all classes of a text, values to be learnt.
OTHERS = {"sentences": "<i4", "labels": "<i4", "several": "<i4", "values": "<f8"}


@dataclass
class Meta:
    __pydantic_config__ = ConfigDict(extra="forbid")

    fingerprint: str
    kind: str  # the type of an id on disk
    columns: list[str]
    end: list[int] = field(default_factory=list)  # what was put behind each document
    documents: list[int] = field(default_factory=list)  # in each shard
    tokens: dict[str, list[int]] = field(default_factory=dict)  # column → in each shard
    sources: list[str] = field(default_factory=list)  # what was asked for
    files: list[Fingerprint] = field(default_factory=list)  # what was read
    labels: list[str] = field(default_factory=list)  # the names of the classes, by number
    done: bool = False
    version: int = VERSION


class Column:
    """A ragged table: number i is one list of ids; all lists together are one long row."""

    def __init__(self, folder: Path, name: str, kind: str, shards: int) -> None:
        self._rows: list[Any] = []
        self._wide = np.float64 if np.dtype(kind).kind == "f" else np.int64
        self.starts: list[Numbers] = []
        self.bases = [0]
        for shard in range(shards):
            begins = _map(folder / f"{name}-{shard:05d}.idx", PLACE)
            self._rows.append(_map(folder / f"{name}-{shard:05d}.bin", np.dtype(kind)))
            if len(begins) == 0 or begins[-1] != len(self._rows[-1]):
                raise InputError(
                    f"{folder}: shard {shard} of {name!r} is not whole: delete the folder "
                    "and prepare the data again"
                )
            self.starts.append(begins)
            self.bases.append(self.bases[-1] + int(begins[-1]))

    def __len__(self) -> int:
        """How many ids there are."""
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
        """Document by document."""
        for row, begins in zip(self._rows, self.starts, strict=True):
            for begin, end in pairwise(begins.tolist()):
                yield row[begin:end]

    def take(self, spans: Numbers) -> npt.NDArray[Any]:
        """The ids of many spans (start, length) of the long row, end to end."""
        return self.at(places(spans))

    def at(self, where: Numbers) -> npt.NDArray[Any]:
        """The ids at these places of the long row."""
        if len(self._rows) == 1:
            return self._rows[0][where].astype(self._wide, copy=False)  # type: ignore[no-any-return]
        shards = np.searchsorted(self.bases, where, side="right") - 1
        found = np.empty(len(where), dtype=self._wide)
        for shard in np.flatnonzero(np.bincount(shards)):
            here = shards == shard
            found[here] = self._rows[shard][where[here] - self.bases[shard]]
        return found


def places(spans: Numbers) -> Numbers:
    """Every place in many spans (start, length), one span after the other."""
    starts, sizes = spans[:, 0], spans[:, 1]
    return np.arange(sizes.sum()) + np.repeat(starts - (sizes.cumsum() - sizes), sizes)


class Store:
    """What `prepare` wrote, opened without reading it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        meta = read_meta(self.folder)
        if meta is None or not meta.done:
            raise InputError(f"{folder}: no prepared data: run glassformer data prepare")
        self.meta = meta
        shards = len(self.meta.documents)
        self.columns = {
            name: Column(self.folder, name, _kind(name, self.meta.kind), shards)
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
        """What was put behind each document."""
        return self.meta.end

    @cached_property
    def layout(self) -> str:
        """Stores whose documents and sentences begin at the same places have the same one."""
        found = hashlib.sha256()
        for name, column in self.columns.items():
            for begins in column.starts:
                found.update(begins.tobytes())
            found.update(column.row.tobytes() if name in OTHERS else b"")
        return found.hexdigest()

    def check(self, fingerprint: str) -> None:
        """Ids mean something only to the tokenizer that made them."""
        if self.meta.fingerprint != fingerprint:
            raise InputError(
                f"{self.folder}: prepared with another tokenizer ({self.meta.fingerprint:.19}…, "
                f"not {fingerprint:.19}…): prepare the data again with this one"
            )


class Writer:
    """Fills a store shard by shard; the meta file, replaced last, says which shards count."""

    def __init__(self, folder: Path, meta: Meta) -> None:
        self.folder, self.meta = folder, meta
        sweep(folder)
        self._clear()

    def _clear(self) -> None:
        # As bytes: a shard of Python's numbers would take twenty times the memory.
        self.rows = {name: bytearray() for name in self.meta.columns}
        self.ends = {name: array("q", [0]) for name in self.meta.columns}
        self.size = 0

    def add(self, document: dict[str, Sequence[int]]) -> None:
        for name, ids in document.items():
            self.rows[name] += np.asarray(ids, dtype=_kind(name, self.meta.kind)).tobytes()
            self.ends[name].append(self.ends[name][-1] + len(ids))
            self.size += len(ids)

    def close_shard(self, *, done: bool = False) -> None:
        number = len(self.meta.documents)
        if len(next(iter(self.ends.values()))) > 1:
            for name, row in self.rows.items():
                ends = np.asarray(self.ends[name], dtype=PLACE)
                write_whole(self.folder / f"{name}-{number:05d}.bin", row)
                write_whole(self.folder / f"{name}-{number:05d}.idx", ends.tobytes())
                self.meta.tokens.setdefault(name, []).append(int(ends[-1]))
            self.meta.documents.append(len(ends) - 1)
            self._clear()
        self.meta.done = done
        write_whole(self.folder / META, json.dumps(asdict(self.meta), indent=2).encode())


def read_meta(folder: Path) -> Meta | None:
    if not (folder / META).is_file():
        return None
    found = parse((folder / META).read_bytes(), str(folder / META))
    if found.get("version") != VERSION:
        version = shown(found.get("version"))
        raise InputError(f"{folder / META}: version {version}: prepare the data again")
    try:
        return TypeAdapter(Meta).validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{folder / META}: {name}: {first['msg']}: prepare the data again"
        ) from None


def _kind(name: str, kind: str) -> str:
    return OTHERS.get(name, kind)


def _map(path: Path, kind: Any) -> Any:
    try:
        if path.stat().st_size == 0:
            return np.zeros(0, dtype=kind)
        # As a plain array: a memmap makes another one, in Python, whenever it is indexed.
        return np.asarray(np.memmap(path, dtype=kind, mode="r"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}: prepare the data again") from None
