"""Files of somebody else's folder: plain ones only, never behind a link, never too many bytes."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePath
from typing import BinaryIO

from glassformer.errors import CheckpointError, shown

KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}
JUNCTION = 0xA0000003  # what Windows calls IO_REPARSE_TAG_MOUNT_POINT
# Not on every system. What takes a file's place meanwhile must neither block us nor lead away.
FLAGS = ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
CAREFUL = sum(getattr(os, name, 0) for name in FLAGS)


def locate(folder: Path, name: str) -> Path | None:
    """Where a file of the folder lies; None if nothing has its name.

    The folder itself may be a link, what is in it not, but for one kind: the hub's cache keeps
    `snapshots/REVISION/FILE` as a link to a plain file `blobs/HASH` beside `snapshots`.
    """
    path, parts = folder, PurePath(name).parts
    if not parts or ".." in parts or "\0" in name or PurePath(name).anchor:  # C:x has one, too
        raise CheckpointError(f"{folder}: {shown(name)} is no name of a file of this folder")
    for i, part in enumerate(parts, 1):
        path = path / part
        kind = kind_of(path)
        wanted = "a file" if i == len(parts) else "a folder"
        if kind == "a link" and wanted == "a file":
            return _blob(folder, name)
        if kind is None:
            return None
        if kind != wanted:
            raise CheckpointError(f"{path}: this is {kind}: put {wanted} there")
    return path


def read(folder: Path, name: str, most: int) -> bytes | None:
    """All of a file; None if there is none."""
    file = open_plain(folder, name)
    if file is None:
        return None
    with file:
        size = max(os.fstat(file.fileno()).st_size, 0)
        data = file.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        raise CheckpointError(
            f"{folder / name}: {size:,} bytes, more than the {most:,} such a file may have"
        )
    return data


def open_plain(folder: Path, name: str) -> BinaryIO | None:
    path = locate(folder, name)
    if path is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | CAREFUL)
    except OSError as error:
        raise CheckpointError(f"{folder / name}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was one a moment ago
        os.close(handle)
        raise CheckpointError(f"{folder / name}: this is no plain file")
    return os.fdopen(handle, "rb")


def kind_of(path: Path) -> str | None:
    """What stands under a name, links not followed; None if nothing does."""
    try:
        found = path.lstat()
        if getattr(found, "st_reparse_tag", 0) == JUNCTION:
            return "a link"  # a junction of Windows, which looks like a folder
        return KINDS.get(stat.S_IFMT(found.st_mode), "no plain file")
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL is in no name
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None


def _blob(folder: Path, name: str) -> Path:
    home = folder.resolve()
    link = home / name
    target = link.readlink()
    blobs = home.parent.parent / "blobs"
    path = Path(os.path.normpath(link.parent / target))
    cached = home.parent.name == "snapshots" and kind_of(blobs) == "a folder"
    if not cached or path.parent != blobs or kind_of(path) != "a file":
        raise CheckpointError(
            f"{folder / name}: this is a link to {shown(str(target))}: put the file itself there"
        )
    return path
