"""Plain text. Like every reader, it takes a file or a folder, compressed or not, and yields item by
item.

Only the current item is in memory. Invalid input is an InputError that names the file, the line and
what to write instead.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from glassformer.data.readers.files import UTF8, Bad, each_file, kind, read_lines, some, stop
from glassformer.data.readers.tables import KINDS, located, sources
from glassformer.errors import InputError, shown

MOST_DOCUMENT = 2**28  # characters: a document is held in memory
Ends = Literal["blank", "file", "line"]  # what ends a document


def documents(
    path: str | os.PathLike[str], field: str = "text", *, ends: Ends = "blank", bad: Bad = stop,
    encoding: str = UTF8,
) -> Iterator[str]:  # fmt: skip
    """Yield texts without labels.

    In .jsonl, .csv, .tsv and .parquet the `field` of each row is a text; in other files `ends` says
    what ends a text: a blank line or the file. If it is "line", each line is a text in all files.
    """

    def read(file: Path) -> Iterator[str]:
        return some(_texts(file, field, ends, bad, encoding), file, "text")

    return each_file(sources(path), read, bad)


def _texts(source: Path, field: str, ends: Ends, bad: Bad, encoding: str) -> Iterator[str]:
    if ends == "line":
        return (line for _, line in read_lines(source, bad, encoding) if line.strip())
    if _is_plain(source):
        return _plain(source, ends == "file", bad, encoding)
    return _field(source, field, bad, encoding)


def _is_plain(source: Path) -> bool:
    if source.is_file() and kind(source) == ".json":
        raise InputError(f"{source}: write one object a line, and name it .jsonl")
    return source.is_file() and kind(source) not in KINDS


def _plain(file: Path, whole_file: bool, bad: Bad, encoding: str) -> Iterator[str]:
    document = io.StringIO()  # a list of short lines would take thirty times the memory
    for number, line in read_lines(file, bad, encoding):
        if whole_file or line.strip():
            document.write(line)
            document.write("\n")
            if document.tell() > MOST_DOCUMENT:
                raise InputError(
                    f"{file}: the document that line {number:,} is in has more than "
                    f"{MOST_DOCUMENT:,} characters: put an empty line between documents"
                )
        elif document.tell():
            yield document.getvalue().removesuffix("\n")
            document = io.StringIO()
    if document.getvalue().strip():
        yield document.getvalue().removesuffix("\n")


def _field(source: Path, field: str, bad: Bad, encoding: str) -> Iterator[str]:
    for where, row in located(source, (field,), bad=bad, encoding=encoding):
        text = row[field]
        if not isinstance(text, str):
            bad(InputError(f"{where}: field {field!r} is {shown(text)}: write a string"))
        elif text.strip():
            yield text
