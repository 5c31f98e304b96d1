"""Files as lines of text: compressed or not, one or a folder of them, streamed from disk."""

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

MOST_LINE = 2**26  # bytes: a longer line is a corrupt file, or an attempt to exhaust the memory
PACKED = {".gz": gzip.open, ".xz": lzma.open}

T = TypeVar("T")
Bad = Callable[[InputError], None]  # called with the error of an unusable line or row


def stop(error: InputError) -> None:
    """The default for `bad`: raise the error."""
    raise error


def find_files(path: str | os.PathLike[str]) -> list[Path]:
    """The file itself, or all files below a folder, in sorted order; hidden ones are skipped."""
    start = Path(path)
    if start.is_file():
        return [start]
    if not start.exists():
        raise InputError(f"File not found: {start.absolute()}")
    if not start.is_dir():
        raise InputError(f"{start}: this is neither a file nor a folder")
    files = sorted(file for file in start.rglob("*") if file.is_file() and _is_visible(file, start))
    if not files:
        raise InputError(f"{start}: there are no files in this folder")
    return files


def _is_visible(file: Path, start: Path) -> bool:
    return not any(part.startswith(".") for part in file.relative_to(start).parts)


def kind(path: Path) -> str:
    """The suffix of the uncompressed file: `.jsonl` for news.jsonl.gz."""
    name = path.name.lower()
    return Path(next((name.removesuffix(p) for p in PACKED if name.endswith(p)), name)).suffix


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A stream of the decompressed bytes of a file."""
    try:
        opener: Any = PACKED.get(path.suffix.lower(), open)
        with opener(path, "rb") as stream:
            yield stream
    except FileNotFoundError:
        raise InputError(f"File not found: {path.absolute()}") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from None


def read_lines(path: str | os.PathLike[str], bad: Bad = stop) -> Iterator[tuple[int, str]]:
    """Yield each line's number and text, without the line end."""
    with unpacked(Path(path)) as stream:
        yield from lines(stream, f"{path}", bad)


def lines(stream: IO[bytes], name: str, bad: Bad = stop) -> Iterator[tuple[int, str]]:
    """The same for an open stream; `name` is what errors call it."""
    offset = 0
    for number, raw in enumerate(iter(lambda: stream.readline(MOST_LINE + 1), b""), 1):
        if len(raw) > MOST_LINE:
            raise InputError(
                f"{name}: line {number} is longer than {MOST_LINE:,} bytes: write shorter lines"
            )
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            bad(InputError(
                f"{name}: line {number}, byte {offset + error.start + 1} of the file is not UTF-8: "
                "save it as UTF-8 text (a compressed file needs a name that ends in .gz or .xz)"
            ))  # fmt: skip
            offset += len(raw)
            continue
        if "\0" in text:
            raise InputError(f"{name}: line {number} holds a NUL byte: this is not a text file")
        offset += len(raw)
        if number == 1:
            text = text.removeprefix("\ufeff")  # a byte order mark
        yield number, text.removesuffix("\n").removesuffix("\r")


def some(items: Iterable[T], source: Path, what: str) -> Iterator[T]:
    """Yield the same items; InputError if there are none."""
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise InputError(f"{source}: there is no {what} in it")
