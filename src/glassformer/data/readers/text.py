"""Plain text. Like every reader, it takes a file or a folder, compressed or not, and yields item by
item.

Only the current item is in memory. Invalid input is an InputError that names the file, the line and
what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from glassformer.data.readers.files import kind, read_lines, some
from glassformer.data.readers.tables import KINDS, located, sources
from glassformer.errors import InputError, shown

MOST_DOCUMENT = 2**28  # characters: a document is held in memory
Ends = Literal["blank", "file", "line"]  # what ends a document


def documents(
    path: str | os.PathLike[str], field: str = "text", *, ends: Ends = "blank"
) -> Iterator[str]:
    """Yield texts without labels.

    In .jsonl, .csv, .tsv and .parquet the `field` of each row is a text; in other files `ends` says
    what ends a text: a blank line or the file. If it is "line", each line is a text in all files.
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


def _plain(file: Path, whole_file: bool) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for number, line in read_lines(file):
        if whole_file or line.strip():
            lines.append(line)
            size += len(line) + 1
            if size > MOST_DOCUMENT:
                raise InputError(
                    f"{file}: the document that line {number:,} is in has more than "
                    f"{MOST_DOCUMENT:,} characters: put an empty line between documents"
                )
        elif lines:
            yield "\n".join(lines)
            lines, size = [], 0
    if any(line.strip() for line in lines):
        yield "\n".join(lines)


def _field(source: Path, field: str) -> Iterator[str]:
    for where, row in located(source, (field,)):
        text = row[field]
        if not isinstance(text, str):
            raise InputError(f"{where}: field {field!r} is {shown(text)}: write a string")
        if text.strip():
            yield text
