"""Readers: each takes a file or a folder, packed or not, and gives one thing after the other.

Nothing is held but the thing at hand. Broken input is an InputError that names the file, the line
and what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from glassformer.data.readers.files import kind, read_lines, some
from glassformer.data.readers.tables import KINDS, located, sources
from glassformer.errors import InputError, shown

MOST_DOCUMENT = 2**28  # characters: one is held in memory as a whole
Ends = Literal["blank", "file", "line"]  # what ends a document


def documents(
    path: str | os.PathLike[str], field: str = "text", *, ends: Ends = "blank"
) -> Iterator[str]:
    """Texts without labels.

    In .jsonl, .csv, .tsv and .parquet each row's `field` is one; in all other files an empty line
    stands between two, or each file is one. Where a "line" ends it, each line is, as it stands.
    """
    for source in sources(path):
        yield from some(_texts(source, field, ends), source, "text")


def _texts(source: Path, field: str, ends: Ends) -> Iterator[str]:
    if ends == "line":
        return (line for _, line in read_lines(source) if line.strip())
    return _plain(source, ends == "file") if _is_plain(source) else _field(source, field)


def _is_plain(source: Path) -> bool:
    if source.is_file() and kind(source) == ".json":
        raise InputError(f"{source}: write one object a line, and name it .jsonl")
    return source.is_file() and kind(source) not in KINDS


def _plain(file: Path, whole: bool) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for number, line in read_lines(file):
        if whole or line.strip():
            held.append(line)
            size += len(line) + 1
            if size > MOST_DOCUMENT:
                raise InputError(
                    f"{file}: the document that line {number:,} is in has more than "
                    f"{MOST_DOCUMENT:,} characters: put an empty line between documents"
                )
        elif held:
            yield "\n".join(held)
            held, size = [], 0
    if any(line.strip() for line in held):
        yield "\n".join(held)


def _field(source: Path, field: str) -> Iterator[str]:
    for where, row in located(source, (field,)):
        text = row[field]
        if not isinstance(text, str):
            raise InputError(f"{where}: field {field!r} is {shown(text)}: write a string")
        if text.strip():
            yield text
