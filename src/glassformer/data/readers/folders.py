"""Documents sorted into folders, one per label: LABEL/FILE, one text per file.

    reviews/neg/cv000.txt       reviews/neg/cv001.txt …       reviews/pos/cv000.txt …

The folder may be a .zip archive.
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

from glassformer.data.readers.files import (
    UTF8,
    Bad,
    find_files,
    kind,
    lines,
    most_unpacked,
    unpacked,
)
from glassformer.data.readers.tables import KINDS
from glassformer.errors import InputError

MOST_DOCUMENT = 2**28  # bytes: a document is held in memory
MOST_MEMBERS = 200_000  # files in an archive
BROKEN = (
    OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile,
)  # fmt: skip


@dataclass(frozen=True)
class LabelledFile:
    """A document in the folder of its label."""

    label: str
    text: str
    where: str
    place: float  # rank among the files of its label, by name: from 0 to 1


Open = Callable[[], AbstractContextManager[IO[bytes]]]


def has_label_folders(path: Path) -> bool:
    """Whether a path holds several folders of texts, and no table."""
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return False
    with _archive(path) as archive:
        files = _files(path, archive)
        tables = any(kind(Path(name)) in (*KINDS, ".arrow", ".json") for _, name, _ in files)
        return not tables and len({label for label, _, _ in files}) > 1


def labelled_files(path: Path, bad: Bad, encoding: str = UTF8) -> Iterator[LabelledFile]:
    """Yield all documents, sorted by label and name."""
    with _archive(path) as archive:
        files = _files(path, archive)
        counts, seen = Counter(label for label, _, _ in files), Counter[str]()
        for label, name, open_file in files:
            where = f"{path}/{label}/{name}"
            place = (seen[label] + 0.5) / counts[label]
            seen[label] += 1
            try:
                text = _text(open_file, where, encoding)
            except InputError as error:
                bad(error)
                continue
            yield LabelledFile(label, text, where, place)


def _text(open_file: Open, where: str, encoding: str) -> str:
    try:
        with open_file() as stream:
            text = "\n".join(line for _, line in lines(stream, where, encoding=encoding))
    except BROKEN as error:
        raise InputError(f"{where}: cannot be read: {error}") from None
    if not text.strip():
        raise InputError(f"{where}: there is no text in it")
    return text


def _archive(path: Path) -> AbstractContextManager[zipfile.ZipFile | None]:
    if path.is_dir():
        return nullcontext()
    try:
        return zipfile.ZipFile(path)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _check_size(path: Path, archive: zipfile.ZipFile) -> None:
    members = archive.infolist()
    for info in members:
        if info.file_size > MOST_DOCUMENT:
            raise InputError(f"{path}/{info.filename}: more than {MOST_DOCUMENT:,} bytes: split it")
    total, most = sum(info.file_size for info in members), most_unpacked(path.stat().st_size)
    if total > most or len(members) > MOST_MEMBERS:
        raise InputError(
            f"{path}: {len(members):,} files of {total:,} bytes, more than {MOST_MEMBERS:,} or "
            f"{most:,}: unpack it first, if you trust it"
        )


def _files(path: Path, archive: zipfile.ZipFile | None) -> list[tuple[str, str, Open]]:
    """The label, name and opener of each file; files beside the folders are skipped."""
    files: list[tuple[PurePosixPath, Open]] = []
    if archive is None:
        for file in find_files(path):
            files.append((PurePosixPath(file.relative_to(path)), partial(unpacked, file)))
    else:
        _check_size(path, archive)
        for info in archive.infolist():
            name = PurePosixPath(info.filename)
            folder = info.filename.endswith("/")  # `is_dir` fails if the name is empty
            if name.parts and not folder and name.parts[0] != "__MACOSX":
                files.append((name, partial(archive.open, info)))
        while files and len({each.parts[0] for each, _ in files}) == 1 < len(files[0][0].parts):
            files = [(PurePosixPath(*each.parts[1:]), open_file) for each, open_file in files]
    labelled = ((each.parts, open_file) for each, open_file in files if len(each.parts) == 2)
    return sorted(((*parts, open_file) for parts, open_file in labelled), key=lambda each: each[:2])
