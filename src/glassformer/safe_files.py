"""Read files of an untrusted folder: only plain files, never through a link, of limited size."""

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
# Where the system has them: if a file is replaced meanwhile, open() must not block or follow links.
FLAGS = ("O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
SAFE_FLAGS = sum(getattr(os, name, 0) for name in FLAGS)


def locate(folder: Path, name: str) -> Path | None:
    """The path of a file in the folder; None if there is no such file.

    The folder itself may be a link, but nothing in it may, with one exception: the hub's cache
    has `snapshots/REVISION/FILE` as a link to a plain file `blobs/HASH` beside `snapshots`.
    """
    path, parts = folder, PurePath(name).parts
    if not parts or ".." in parts or "\0" in name or PurePath(name).anchor:  # C:x has one, too
        raise CheckpointError(f"{folder}: {shown(name)} is not the name of a file in this folder")
    for i, part in enumerate(parts, 1):
        path = path / part
        kind = kind_of(path)
        expected = "a file" if i == len(parts) else "a folder"
        if kind == "a link" and expected == "a file":
            return _blob(folder, name)
        if kind is None:
            return None
        if kind != expected:
            raise CheckpointError(f"{path}: this is {kind}: replace it with {expected}")
    return path


def read(folder: Path, name: str, limit: int) -> bytes | None:
    """The content of a file of at most `limit` bytes; None if there is no such file."""
    file = open_plain(folder, name)
    if file is None:
        return None
    try:
        with file:
            size = max(os.fstat(file.fileno()).st_size, 0)
            data = file.read(limit + 1) if size <= limit else b""
    except OSError as error:  # the disk, or the network, fails
        raise _unreadable(folder / name, error) from None
    if max(size, len(data)) > limit:
        raise CheckpointError(f"{folder / name}: {size:,} bytes, more than the limit of {limit:,}")
    return data


def open_plain(folder: Path, name: str) -> BinaryIO | None:
    """Open a plain file of the folder for reading; None if there is no such file."""
    path = locate(folder, name)
    if path is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | SAFE_FLAGS)
    except OSError as error:
        raise _unreadable(folder / name, error) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was replaced since locate() looked
        os.close(handle)
        raise CheckpointError(f"{folder / name}: this is not a plain file")
    return os.fdopen(handle, "rb")


def kind_of(path: Path) -> str | None:
    """What a path is, without following links; None if it does not exist."""
    try:
        status = path.lstat()
        if getattr(status, "st_reparse_tag", 0) == JUNCTION:
            return "a link"  # a Windows junction, which otherwise looks like a folder
        return KINDS.get(stat.S_IFMT(status.st_mode), "not a plain file")
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        return None
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{path}: cannot be read: {error.strerror}")


def _blob(folder: Path, name: str) -> Path:
    """The target of a link in the hub's cache; any other link is an error."""
    try:
        snapshot = folder.resolve()
        link = snapshot / name
        target = link.readlink()
    except OSError as error:  # it was replaced since locate() looked
        raise _unreadable(folder / name, error) from None
    blobs = snapshot.parent.parent / "blobs"
    path = Path(os.path.normpath(link.parent / target))
    cached = snapshot.parent.name == "snapshots" and kind_of(blobs) == "a folder"
    if not cached or path.parent != blobs or kind_of(path) != "a file":
        raise CheckpointError(
            f"{folder / name}: this is a link to {shown(str(target))}: replace it with the file"
        )
    return path
