"""Files as lines of text: packed or not, one or a folder of them, never whole in memory."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from glassformer.errors import InputError

MOST_LINE = 2**26  # bytes: a longer line is a broken file, or one that wants all our memory
PACKED = {".gz": gzip.open, ".xz": lzma.open}

T = TypeVar("T")
Bad = Callable[[InputError], None]  # what is done about a line or row that cannot be used


def stop(error: InputError) -> None:
    """The usual thing: nothing after it is read."""
    raise error


def find_files(path: str | os.PathLike[str]) -> list[Path]:
    """The file itself, or all files below a folder, in sorted order; hidden ones are skipped."""
    start = Path(path)
    if start.is_file():
        return [start]
    if not start.is_dir():
        raise InputError(f"{start}: no such file or folder: write the path of one that is there")
    found = sorted(file for file in start.rglob("*") if file.is_file() and _shown(file, start))
    if not found:
        raise InputError(f"{start}: there are no files in this folder")
    return found


def _shown(file: Path, start: Path) -> bool:
    return not any(part.startswith(".") for part in file.relative_to(start).parts)


def kind(path: Path) -> str:
    """The suffix that says what is in a file: `.jsonl` of news.jsonl.gz."""
    name = path.name.lower()
    return Path(next((name.removesuffix(p) for p in PACKED if name.endswith(p)), name)).suffix


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    try:
        opener: Any = PACKED.get(path.suffix.lower(), open)
        with opener(path, "rb") as stream:
            yield stream
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {why}") from None


def read_lines(path: str | os.PathLike[str], bad: Bad = stop) -> Iterator[tuple[int, str]]:
    """Each line's number and text, without its end."""
    with unpacked(Path(path)) as stream:
        yield from lines(stream, f"{path}", bad)


def lines(stream: IO[bytes], name: str, bad: Bad = stop) -> Iterator[tuple[int, str]]:
    """The same of a stream that is already open; `name` is what errors call it."""
    before = 0
    for number, raw in enumerate(iter(lambda: stream.readline(MOST_LINE + 1), b""), 1):
        if len(raw) > MOST_LINE:
            raise InputError(
                f"{name}: line {number} is longer than {MOST_LINE:,} bytes: write shorter lines"
            )
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            bad(InputError(
                f"{name}: line {number}, byte {before + error.start + 1} of the file is not UTF-8: "
                "save it as UTF-8 text (a packed file needs a name that ends in .gz or .xz)"
            ))  # fmt: skip
            before += len(raw)
            continue
        if "\0" in text:
            raise InputError(f"{name}: line {number} holds a NUL byte: this is no text file")
        before += len(raw)
        if number == 1:
            text = text.removeprefix("\ufeff")  # a byte order mark
        yield number, text.removesuffix("\n").removesuffix("\r")


def some(found: Iterable[T], source: Path, what: str) -> Iterator[T]:
    """The same items; a file that gives none is a mistake, not an empty answer."""
    nothing = True
    for item in found:
        nothing = False
        yield item
    if nothing:
        raise InputError(f"{source}: there is no {what} in it")
