"""Has a file changed since it was read? Size and modification time are compared first; a copy has
another time, and then its contents are hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from glassformer.errors import InputError

MOST_FILES = 250_000  # of a corpus: each has a record in the metadata


@dataclass(frozen=True)
class Fingerprint:
    name: str
    size: int
    changed: int  # nanoseconds
    digest: str


def fingerprints(files: Mapping[str, Path]) -> list[Fingerprint]:
    """The fingerprint of each file, by its name."""
    if len(files) > MOST_FILES:
        raise InputError(
            f"{next(iter(files.values())).parent}: {len(files):,} files: put the texts into at "
            f"most {MOST_FILES:,}"
        )
    results = []
    for name, file in files.items():
        size, changed = _size_and_time(file)
        results.append(Fingerprint(name, size, changed, _digest(file, size, changed)))
    return results


def difference(before: Iterable[Fingerprint], files: Mapping[str, Path]) -> str | None:
    """What has changed since the fingerprints were taken; None if nothing has."""
    known = {fingerprint.name: fingerprint for fingerprint in before}
    for name in known | dict(files):
        if name not in files:
            return f"{name}: this file is gone"
        if name not in known:
            return f"{files[name]}: this file is new"
        if _differs(known[name], files[name]):
            return f"{files[name]}: this file has changed"
    return None


def _differs(before: Fingerprint, file: Path) -> bool:
    size, changed = _size_and_time(file)
    if size != before.size:
        return True
    return changed != before.changed and _digest(file, size, changed) != before.digest


def _size_and_time(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


@cache  # the tokenizer, the training and the validation split may share a file
def _digest(file: Path, size: int, changed: int) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "blake2b").hexdigest()[:32]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
