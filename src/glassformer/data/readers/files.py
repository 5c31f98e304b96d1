"""Files as lines of text: compressed or not, one or a folder of them, streamed from disk."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from glassformer.errors import ConfigError, InputError

MOST_COLUMNS = 10_000  # of a table
MOST_LINE = 2**24  # bytes: a longer line is a corrupt file, or an attempt to exhaust the memory
PACKED: dict[str, Any] = {".gz": lambda file: gzip.GzipFile(fileobj=file), ".xz": lzma.LZMAFile}
# Packed data may have so many bytes, or so many times those it is packed to: text is packed to a
# tenth, and what is packed to a thousandth was made to exhaust the memory.
MOST_UNPACKED, MOST_TIMES = 2**20, 100
UTF8 = "utf-8"
WIDE = ("utf-16", "utf-32")  # their line ends have several bytes
SIGNATURES = {  # the first bytes of files that are not text
    b"\x89PNG": "this is a PNG image, not text",
    b"\xff\xd8\xff": "this is a JPEG image, not text",
    b"GIF87a": "this is a GIF image, not text",
    b"GIF89a": "this is a GIF image, not text",
    b"%PDF-": "this is a PDF document: save it as text",
    b"PK\3\4": "this is a ZIP archive, as .xlsx and .docx files are: save it as text or .csv",
    b"\xd0\xcf\x11\xe0": "this is an old Office document: save it as text or .csv",
    b"PAR1\x15": "this is a Parquet file: give it a name that ends in .parquet",
    b"\x1f\x8b": "this is a gzip file: give it a name that ends in .gz",
    b"\xfd7zXZ": "this is an xz file: give it a name that ends in .xz",
    codecs.BOM_UTF16_LE: "this is UTF-16 text: use --encoding utf-16, or save it as UTF-8",
    codecs.BOM_UTF16_BE: "this is UTF-16 text: use --encoding utf-16, or save it as UTF-8",
}
SAVE = "save it as UTF-8, or name its encoding: --encoding cp1252"

T = TypeVar("T")
Bad = Callable[[InputError], None]  # called with the error of an unusable line or row


class RowError(InputError):
    """An unusable row; `number` is that of its line, or of the row in a file without lines."""

    def __init__(self, line: str, number: int = 0) -> None:
        super().__init__(line)
        self.number = number


def stop(error: InputError) -> None:
    """The default for `bad`: raise the error."""
    raise error


class BadRows:
    """A `bad` that counts unusable rows. At the end they are logged, if they may be skipped, or are
    an error that names the first one and says how many there are."""

    def __init__(self, path: Path, skip: bool, log: Callable[[str], None]) -> None:
        self.path, self.skip, self.log = path, skip, log
        self.first: InputError | None = None
        self.count = 0

    def __call__(self, error: InputError) -> None:
        self.first = self.first or error
        self.count += 1

    def __enter__(self) -> BadRows:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self.count or not (error is None or isinstance(error, InputError)):
            return
        rows = "1 bad row" if self.count == 1 else f"{self.count:,} bad rows"
        if error is not None:  # that nothing is left is not what is wrong with the file
            raise InputError(f"{self.first} ({rows}, and no good one)") from None
        if self.skip:
            self.log(f"{self.path}: {rows} skipped, the first: {self.first}")
        else:
            raise InputError(f"{self.first} ({rows}: --skip-bad leaves out such rows)")


@contextmanager
def skip_or_stop(path: Path, skip: bool, log: Callable[[str], None]) -> Iterator[Bad]:
    """A `bad` for text that is too long to count all unusable rows before stopping."""
    raised: InputError | None = None

    def first(error: InputError) -> None:
        nonlocal raised
        raised = error
        raise error

    with BadRows(path, skip, log) as counted:
        try:
            yield counted if skip else first
        except InputError as error:
            if error is not raised:
                raise
            raise InputError(f"{error} (--skip-bad leaves out such rows)") from None


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


def most_unpacked(size: int) -> int:
    """The most bytes that are read from packed data of this size."""
    return max(MOST_UNPACKED, MOST_TIMES * size)


class _Counted:
    """A packed file, read in small parts; `count` is the number of bytes read so far."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, 8192) if size >= 0 else 8192)
        self.count += len(data)
        return data


class _Limited(io.RawIOBase):
    """What is packed in a file: InputError if it is far too much."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self.packed, self.path, self.count = _Counted(file), path, 0
        self.stream: Any = PACKED[path.suffix.lower()](self.packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self.stream.readinto(buffer)
        self.count += count
        if self.count > most_unpacked(self.packed.count):
            raise InputError(
                f"{self.path}: its first {self.packed.count:,} bytes unpack to {self.count:,}: "
                "unpack it first, if you trust it"
            )
        return count


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A stream of the decompressed bytes of a file."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() in PACKED:
                # In large parts: each is checked before its first line is read.
                yield io.BufferedReader(_Limited(file, path), 2 * MOST_UNPACKED)
            else:
                yield file
    except FileNotFoundError:
        raise InputError(f"File not found: {path.absolute()}") from None
    except IsADirectoryError:
        raise InputError(f"{path}: this is a folder: give a file") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {reason}") from None


def read_lines(
    path: str | os.PathLike[str], bad: Bad = stop, encoding: str = UTF8
) -> Iterator[tuple[int, str]]:
    """Yield each line's number and text, without the line end."""
    with unpacked(Path(path)) as stream:
        yield from lines(stream, f"{path}", bad, encoding)


def check_encoding(encoding: str) -> None:
    """ConfigError if Python does not know it, or if it is no encoding of text."""
    try:
        b"a".decode(encoding, "replace")
    except LookupError:
        raise ConfigError(
            f"encoding = {encoding!r}: write one such as utf-8, utf-16, cp1252, cp1251 or gb18030"
        ) from None


def decoded(content: bytes, name: str, encoding: str = UTF8) -> str:
    """The text of a whole file, without its byte order mark."""
    check_encoding(encoding)
    if not codecs.lookup(encoding).name.startswith(WIDE):
        _check_signature(content, name)
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: byte {error.start + 1} of the file is not {encoding.upper()}: {SAVE}"
        ) from None


def lines(
    stream: IO[bytes], name: str, bad: Bad = stop, encoding: str = UTF8, *, first: int = 1,
    offset: int = 0, end: int | None = None,
) -> Iterator[tuple[int, str]]:  # fmt: skip
    """The same for an open stream; `name` is what errors call it.

    A stream that is at `offset` bytes, where line number `first` begins, is read up to `end`.
    """
    check_encoding(encoding)
    raw_lines = iter(lambda: stream.readline(MOST_LINE + 1), b"")
    if codecs.lookup(encoding).name.startswith(WIDE):
        raw_lines, encoding = _wide_lines(stream, name, encoding), UTF8
    for number, raw in enumerate(raw_lines, first):
        if offset == end:
            return
        if number == 1:
            _check_signature(raw, name)
        if len(raw) > MOST_LINE:
            raise InputError(
                f"{name}: line {number} is longer than {MOST_LINE:,} bytes: write shorter lines"
            )
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError as error:
            place = f"{name}: line {number}, byte {offset + error.start + 1} of the file"
            bad(RowError(f"{place} is not {encoding.upper()}: {SAVE}", number))
            offset += len(raw)
            continue
        offset += len(raw)
        if "\0" in text:
            line = f"{name}: line {number} holds a NUL byte: this is not a text file"
            bad(RowError(line, number))
            continue
        if number == 1:
            text = text.removeprefix("\ufeff")  # a byte order mark
        yield number, text.removesuffix("\n").removesuffix("\r")


def _wide_lines(stream: IO[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """The lines of a stream of two or four bytes per character, as UTF-8."""
    text = io.TextIOWrapper(stream, encoding, newline="\n")
    try:
        while line := text.readline(MOST_LINE + 1):
            yield line.encode()
    except UnicodeError as error:
        raise InputError(f"{name}: this is not {encoding.upper()} text: {error}") from None
    finally:
        text.detach()


def _check_signature(start: bytes, name: str) -> None:
    for signature, message in SIGNATURES.items():
        if start.startswith(signature):
            raise InputError(f"{name}: {message}")


def each_file(files: Sequence[Path], read: Callable[[Path], Iterable[T]], bad: Bad) -> Iterator[T]:
    """The items that `read` finds in each file. One file of several may be bad as a whole."""
    for file in files:
        try:
            yield from read(file)
        except InputError as error:
            if len(files) == 1:
                raise
            bad(error)


def some(items: Iterable[T], source: Path, what: str) -> Iterator[T]:
    """Yield the same items; InputError if there are none."""
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        raise InputError(f"{source}: there is no {what} in it")
