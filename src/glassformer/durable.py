"""A file is whole or absent, whatever kills its writer; a full disk is one line."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import GlassformerError

# Seconds between attempts: a virus scanner of Windows keeps a file busy for a moment.
WAITS = (0.05, 0.1, 0.2, 0.4, 0.8) if os.name == "nt" else ()
LEFT_OVER = re.compile(r"\..+\.tmp-\w+")


def write_whole(path: Path, data: bytes | bytearray) -> None:
    """Beside, made durable, then renamed."""
    beside = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    with writing(path, len(data)):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            move(beside, path)
        finally:
            beside.unlink(missing_ok=True)
        sync(path.parent)


def move(path: Path, to: Path) -> Path:
    """At once; a file that was there is replaced."""
    for wait in WAITS:
        try:
            return path.replace(to)
        except PermissionError:
            time.sleep(wait)
    return path.replace(to)


@contextmanager
def writing(path: Path, needed: int) -> Iterator[None]:
    """What goes wrong inside is one line."""
    try:
        yield
    except OSError as error:
        raise GlassformerError(not_written(path, needed, error)) from None


def sync(path: Path) -> None:
    """What was written here is on the disk when this returns; a folder's names, too."""
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)  # Windows wants to write
    except PermissionError:
        if folder:  # Windows opens none, and keeps names in its journal
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left beside their files."""
    for left in folder.iterdir() if folder.is_dir() else ():
        if LEFT_OVER.fullmatch(left.name):
            remove(left)


def remove(path: Path) -> None:
    """A folder is gone at once: half of one would look like a damaged one."""
    with writing(path, 0):
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            return
        if not LEFT_OVER.fullmatch(path.name):
            path = move(path, path.with_name(f".{path.name}.tmp-removed"))
        shutil.rmtree(path, ignore_errors=True)


def not_written(path: Path, needed: int, error: Exception) -> str:
    """What to tell; of a full disk, how much is missing."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    why = " ".join(str(getattr(error, "strerror", None) or error).split())
    free = shutil.disk_usage(there).free
    return f"{path}: could not be written: {why}: {needed:,} bytes are needed, {free:,} are free"
