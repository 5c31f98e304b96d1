"""Atomic writes: a file is complete or absent, even if the writer is killed."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from glassformer.errors import GlassformerError

# Seconds between attempts: on Windows a virus scanner may hold a file for a moment.
WAITS = (0.05, 0.1, 0.2, 0.4, 0.8) if os.name == "nt" else ()
# Where the system has them: a link is not followed, and a FIFO does not block.
SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | SAFE
LEFT_OVER = re.compile(r"\..+\.tmp-\w+")


def write_whole(path: Path, data: bytes | bytearray) -> None:
    """Write `data` to a temporary file beside `path`, sync it, then rename it."""
    with replacing(path, len(data)) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, needed: int = 0, name: str = "") -> Iterator[BinaryIO]:
    """A new file to write to. At the end of the block it is synced and becomes `path`, which
    appears whole; after an error it is removed.

    Args:
        needed: the number of bytes to write, for the message if the disk is full
        name: added to its name, where writers on several hosts may have the same process id
    """
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}{name}")
    with writing(path, needed):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.unlink(missing_ok=True)
            with temporary.open("xb") as file:  # a new file: a link there would lead elsewhere
                yield file
                file.flush()
                os.fsync(file.fileno())
            move(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)


def append(path: Path, data: bytes) -> None:
    """Write `data` at the end of a file, which is created if it does not exist; a link is not
    followed."""
    with writing(path, len(data)), os.fdopen(os.open(path, APPEND, 0o666), "ab") as file:
        file.write(data)


def move(path: Path, to: Path) -> Path:
    """Rename atomically; an existing file is replaced."""
    for wait in WAITS:
        try:
            return path.replace(to)
        except PermissionError:
            time.sleep(wait)
    return path.replace(to)


@contextmanager
def writing(path: Path, needed: int) -> Iterator[None]:
    """Turn an OSError inside into one line; `needed` is the number of bytes to write."""
    try:
        yield
    except OSError as error:
        raise GlassformerError(not_written(path, needed, error)) from None


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    folder = path.is_dir()
    try:
        # Windows syncs only what is open for writing.
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except PermissionError:
        if folder:  # Windows cannot open folders; it journals their names
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove temporary files of writers that were killed."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if LEFT_OVER.fullmatch(path.name):
            remove(path)


def remove(path: Path) -> None:
    """Delete a file or folder. A folder is renamed first: half of one would look damaged."""
    with writing(path, 0):
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            return
        if not LEFT_OVER.fullmatch(path.name):
            path = move(path, path.with_name(f".{path.name}.tmp-removed"))
        shutil.rmtree(path, ignore_errors=True)


def not_written(path: Path, needed: int, error: Exception) -> str:
    """The error message: the reason, and how much space is needed and free."""
    # os.path's never raises, not even for a name that is too long.
    existing = next(p for p in (path, *path.absolute().parents) if os.path.exists(p))  # noqa: PTH110
    if isinstance(error, FileExistsError | NotADirectoryError) and not existing.is_dir():
        return f"{path}: could not be written: {existing} is a file: choose another path"
    reason = " ".join(str(getattr(error, "strerror", None) or error).split())
    free = shutil.disk_usage(existing).free
    return f"{path}: could not be written: {reason}: {needed:,} bytes are needed, {free:,} are free"
