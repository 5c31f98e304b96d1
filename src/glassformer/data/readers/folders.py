"""Documents sorted into folders, one for each label: LABEL/FILE, a text a file.

    reviews/neg/cv000.txt       reviews/neg/cv001.txt …       reviews/pos/cv000.txt …

The folder may be packed as a .zip.
"""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from glassformer.data.readers.files import Bad, find_files, kind, lines, unpacked
from glassformer.data.readers.tables import KINDS
from glassformer.errors import InputError

MOST_DOCUMENT = 2**28  # bytes: one is held in memory as a whole


@dataclass(frozen=True)
class LabelledFile:
    """A document in the folder of its label."""

    label: str
    text: str
    where: str
    place: float  # among all files of its label, by their names: from 0 to 1


Open = Callable[[], AbstractContextManager[IO[bytes]]]


def has_label_folders(path: Path) -> bool:
    """Are there several folders of texts, and no table?"""
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return False
    with _archive(path) as archive:
        found = _files(path, archive)
        tables = any(kind(Path(name)) in (*KINDS, ".arrow", ".json") for _, name, _ in found)
        return not tables and len({label for label, _, _ in found}) > 1


def labelled_files(path: Path, bad: Bad) -> Iterator[LabelledFile]:
    """All of them, by label and name."""
    with _archive(path) as archive:
        found = _files(path, archive)
        counts, seen = Counter(label for label, _, _ in found), Counter[str]()
        for label, name, opened in found:
            where = f"{path}/{label}/{name}"
            place = (seen[label] + 0.5) / counts[label]
            seen[label] += 1
            try:
                text = _text(opened, where)
            except InputError as error:
                bad(error)
                continue
            yield LabelledFile(label, text, where, place)


def _text(opened: Open, where: str) -> str:
    try:
        with opened() as stream:
            held = "\n".join(line for _, line in lines(stream, where))
    except (OSError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise InputError(f"{where}: cannot be read: {error}") from None
    if not held.strip():
        raise InputError(f"{where}: there is no text in it")
    return held


def _archive(path: Path) -> AbstractContextManager[zipfile.ZipFile | None]:
    if path.is_dir():
        return nullcontext()
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _files(path: Path, archive: zipfile.ZipFile | None) -> list[tuple[str, str, Open]]:
    """Label, name, and how to open it; what lies beside the folders is left out."""
    found: list[tuple[PurePosixPath, Open]] = []
    if archive is None:
        for file in find_files(path):
            found.append((PurePosixPath(file.relative_to(path)), partial(unpacked, file)))
    else:
        for info in archive.infolist():
            if info.file_size > MOST_DOCUMENT:
                raise InputError(
                    f"{path}/{info.filename}: more than {MOST_DOCUMENT:,} bytes: split it"
                )
            if not info.is_dir() and not info.filename.startswith("__MACOSX/"):
                found.append((PurePosixPath(info.filename), partial(archive.open, info)))
        while found and len({each.parts[0] for each, _ in found}) == 1 < len(found[0][0].parts):
            found = [(PurePosixPath(*each.parts[1:]), opened) for each, opened in found]
    two = ((each.parts, opened) for each, opened in found if len(each.parts) == 2)
    return sorted(((*parts, opened) for parts, opened in two), key=lambda each: each[:2])
