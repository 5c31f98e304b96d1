"""A file is whole or absent, whatever kills its writer; a full disk is one line."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glassformer.errors import GlassformerError

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
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        sync(path.parent)


@contextmanager
def writing(path: Path, needed: int) -> Iterator[None]:
    """What goes wrong inside is one line."""
    try:
        yield
    except OSError as error:
        raise GlassformerError(not_written(path, needed, error)) from None


def sync(path: Path) -> None:
    """What was written here is on the disk when this returns; a folder's names, too."""
    handle = os.open(path, os.O_RDONLY)
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
            path = path.rename(path.with_name(f".{path.name}.tmp-removed"))
        shutil.rmtree(path, ignore_errors=True)


def not_written(path: Path, needed: int, error: Exception) -> str:
    """What to tell; of a full disk, how much is missing."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    why = " ".join(str(getattr(error, "strerror", None) or error).split())
    free = shutil.disk_usage(there).free
    return f"{path}: could not be written: {why}: {needed:,} bytes are needed, {free:,} are free"
