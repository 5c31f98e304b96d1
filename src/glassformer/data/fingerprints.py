"""Has a file changed since it was read? Size and time tell it fast; a copy's time is another one,
and then its contents tell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from glassformer.errors import InputError


@dataclass(frozen=True)
class Fingerprint:
    name: str
    size: int
    changed: int  # nanoseconds
    digest: str


def fingerprints(files: Mapping[str, Path]) -> list[Fingerprint]:
    found = []
    for name, file in files.items():
        size, changed = _facts(file)
        found.append(Fingerprint(name, size, changed, _digest(file, size, changed)))
    return found


def difference(before: Iterable[Fingerprint], files: Mapping[str, Path]) -> str | None:
    """What is not as it was, if anything."""
    known = {stamp.name: stamp for stamp in before}
    for name in known | dict(files):
        if name not in files:
            return f"{name}: this file is gone"
        if name not in known:
            return f"{files[name]}: this file is new"
        if _differs(known[name], files[name]):
            return f"{files[name]}: this file has changed"
    return None


def _differs(before: Fingerprint, file: Path) -> bool:
    size, changed = _facts(file)
    if size != before.size:
        return True
    return changed != before.changed and _digest(file, size, changed) != before.digest


def _facts(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


@cache  # the tokenizer, the training part and the held-out part may all come from one file
def _digest(file: Path, size: int, changed: int) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "blake2b").hexdigest()[:32]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
