"""Static word vectors: GloVe and word2vec files, opened as an encoder that is a table alone.

    .txt .vec    the 0.418 0.250 …          a line per word; word2vec starts with "words width"
    .bin         word2vec: "words width", then each word, a space and its float32 numbers
    .npz         numpy: an array `words` and an array `vectors`

Text and binary files may be compressed (.gz). They are read, not written: such a model is saved as
a folder.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers
from torch import Tensor

from glassformer.checkpoint.budget import memory
from glassformer.config import ModelConfig
from glassformer.errors import CheckpointError, shown
from glassformer.safe_files import open_plain
from glassformer.text import Tokenizer
from glassformer.text.training import tokenizer_files

KINDS = (".txt", ".vec", ".bin", ".npz")
UNKNOWN = "[UNK]"
HEADER = re.compile(rb"(\d{1,10}) (\d{1,10})[ \r]*\n")
FEW_BYTES, MOST_TIMES = 1 << 24, 100  # of an array; of the bytes it is packed to
MAX_WORDS = 500_000  # the most frequent ones come first
MAX_WIDTH, MAX_WORD, MAX_LINE = 4_096, 1_000, 1 << 18
LONGEST = 1 << 20  # tokens of a text: without positions there is no limit

BROKEN = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError,
)  # fmt: skip
WordVector = npt.NDArray[np.float32]
Entries = Iterator[tuple[str, str, WordVector]]  # place in the file, word, vector


@dataclass(frozen=True)
class Vectors:
    """A file of vectors: its words as a tokenizer, and the table."""

    config: ModelConfig
    files: dict[str, bytes] = field(repr=False)  # the tokenizer, as files of a folder
    table: Tensor = field(repr=False)


def is_vectors(path: str | os.PathLike[str]) -> bool:
    """Is this a file of word vectors, by its name (and of .bin by its first line)?"""
    kind = _kind(Path(path))
    if kind not in KINDS or not os.path.isfile(path):  # noqa: PTH113 - never raises
        return False
    if kind != ".bin":
        return True
    try:
        with _opened(Path(path)) as file:  # other .bin files are pickles: not read
            return HEADER.match(file.readline(32)) is not None
    except BROKEN:
        return True  # opening it will say why it cannot be read


def about_vectors(path: str | os.PathLike[str]) -> tuple[ModelConfig, dict[str, bytes]]:
    """The config and the tokenizer's files, cached until the file changes."""
    status = Path(path).stat()
    return _about(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(2)
def _about(path: str, size: int, changed: int) -> tuple[ModelConfig, dict[str, bytes]]:
    vectors = open_vectors(path)
    return vectors.config, vectors.files


def open_vectors(path: str | os.PathLike[str]) -> Vectors:
    """Read the vectors: of a repeated word the first; id 0 is the unknown word, all zeros."""
    path = Path(path)
    words: dict[str, int] = {UNKNOWN: 0}
    rows: list[WordVector] = []
    read = {".bin": _binary, ".npz": _arrays}.get(_kind(path), _text)
    try:
        for where, word, row in read(path):
            if not word.strip() or len(word) > MAX_WORD or not _is_text(word):
                raise CheckpointError(f"{where}: the word is {shown(word)}: write a word")
            if not np.isfinite(row).all():
                raise CheckpointError(
                    f"{where}: the vector of {shown(word)} contains NaN or infinity"
                )
            if word in words:
                continue
            if len(words) > MAX_WORDS:
                warnings.warn(f"{path}: only its first {MAX_WORDS:,} words are used", stacklevel=2)
                break
            words[word] = len(words)
            rows.append(row)
            if 2 * row.nbytes * len(words) > memory():  # once as rows, once as a table
                raise CheckpointError(f"{where}: the vectors do not fit into memory")
    except BROKEN as error:
        why = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path}: cannot be read: {why}") from None
    if not rows:
        raise CheckpointError(f"{path}: there are no words in it")
    table = torch.from_numpy(np.stack([np.zeros_like(rows[0]), *rows]))
    config = ModelConfig(
        family="encoder", vocab_size=len(words), width=table.shape[1], depth=0, heads=1,
        mlp_width=table.shape[1], max_length=LONGEST, position="none", final_norm=False,
    )  # fmt: skip
    return Vectors(config, tokenizer_files(_tokenizer(words)), table)


def _is_text(word: str) -> bool:
    return "\0" not in word and not any("\ud800" <= letter <= "\udfff" for letter in word)


def _tokenizer(words: dict[str, int]) -> Tokenizer:
    """Whole words and punctuation; lowercased if all words of the file are lowercase."""
    backend = tokenizers.Tokenizer(models.WordLevel(words, unk_token=UNKNOWN))
    if all(word == word.lower() for word in words if word != UNKNOWN):
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens([UNKNOWN])
    return Tokenizer(backend)


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    file = open_plain(path.parent, path.name)
    if file is None:
        raise CheckpointError(f"File not found: {path.absolute()}")
    with file:
        packed = path.suffix.lower() == ".gz"
        yield gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[misc]


def _text(path: Path) -> Entries:
    with _opened(path) as file:
        width, declared, number = 0, None, 0
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            where = f"{path}: line {number}"
            header = HEADER.fullmatch(line) if number == 1 else None
            if header:
                declared, width = int(header[1]), _width(int(header[2]), where)
                continue
            try:
                parts = line.decode("utf-8").rstrip("\r\n ").split(" ")
            except UnicodeDecodeError:
                raise CheckpointError(f"{where}: not UTF-8: save it as UTF-8 text") from None
            width = width or _width(len(parts) - 1, where)
            try:
                row = np.array(parts[-width:], np.float32)  # a word may hold spaces
            except ValueError:
                row = np.zeros(0, np.float32)
            if len(row) != width or len(parts) <= width:
                raise CheckpointError(
                    f"{where}: {shown(line[:60].decode('utf-8', 'replace'))}: write a word and "
                    f"{width} numbers, separated by spaces"
                )
            yield where, " ".join(parts[:-width]), row
        if declared is not None and declared != number - 1:
            raise CheckpointError(
                f"{path}: line 1 declares {declared:,} words, and there are {number - 1:,}: "
                "correct the number, or get the complete file"
            )


def _width(width: int, where: str) -> int:
    if not 0 < width <= MAX_WIDTH:
        raise CheckpointError(
            f"{where}: vectors of {width:,} numbers: write a word and 1 to {MAX_WIDTH:,} numbers"
        )
    return width


def _binary(path: Path) -> Entries:
    with _opened(path) as file:
        header = HEADER.fullmatch(file.readline(32))
        if header is None:
            raise CheckpointError(f"{path}: line 1: write the number of words and their width")
        count, width = int(header[1]), _width(int(header[2]), f"{path}: line 1")
        least, size = count * (4 * width + 2), path.stat().st_size
        if path.suffix.lower() != ".gz" and least > size:
            raise CheckpointError(
                f"{path}: line 1: {count:,} words of {width} numbers need at least {least:,} "
                f"bytes, and the file has {size:,}"
            )
        for number in range(1, count + 1):
            where = f"{path}: word {number:,}"
            letters = bytearray()
            while (letter := file.read(1)) not in (b" ", b"") and len(letters) <= 4 * MAX_WORD:
                letters += letter
            data = file.read(4 * width)
            if len(data) < 4 * width:
                raise CheckpointError(f"{where}: the file ends in the middle of it")
            try:
                word = letters.lstrip(b"\n").decode("utf-8")
            except UnicodeDecodeError:
                raise CheckpointError(f"{where}: {bytes(letters)!r:.40} is not UTF-8") from None
            yield where, word, np.frombuffer(data, "<f4").astype(np.float32)


def _arrays(path: Path) -> Entries:
    with _opened(path) as file, zipfile.ZipFile(file) as archive:
        words, vectors = (_array(archive, name, path) for name in ("words", "vectors"))
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or words.shape != vectors.shape[:1]:
        raise CheckpointError(
            f"{path}: words {list(words.shape)} and vectors {list(vectors.shape)} of "
            f"{vectors.dtype}: write a vector of numbers for each word"
        )
    if words.dtype.kind != "U":
        raise CheckpointError(f"{path}: words have dtype {words.dtype}: write an array of strings")
    _width(vectors.shape[1], f"{path}: vectors")
    try:
        spelt = words.tolist()
    except (SystemError, ValueError):  # invalid code points
        raise CheckpointError(f"{path}: words contain invalid characters") from None
    with np.errstate(over="ignore"):  # too large values become infinite, and are refused
        for number, (word, row) in enumerate(zip(spelt, vectors, strict=True), 1):
            yield f"{path}: word {number:,}", word, row.astype(np.float32)


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> npt.NDArray[Any]:
    """An array of the archive, never of Python objects; its size is checked before it is read."""
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise CheckpointError(
            f"{path}: there is no array {name!r}: write `words` and `vectors`"
        ) from None
    size, packed = member.file_size, member.compress_size
    if size > max(FEW_BYTES, MOST_TIMES * packed):
        raise CheckpointError(
            f"{path}: {name}: {packed:,} bytes that unpack to {size:,}: save it by np.savez, if "
            "you trust it"
        )
    numpy = np.lib.format
    readers: dict[tuple[int, int], Any] = {
        (1, 0): numpy.read_array_header_1_0,
        (2, 0): numpy.read_array_header_2_0,
    }
    try:
        with archive.open(f"{name}.npy") as file:
            shape, _, kind = readers[numpy.read_magic(file)](file)
        needed = int(kind.itemsize) * math.prod(shape)
        if needed > size or size > memory():
            raise CheckpointError(
                f"{path}: {name}: an array of {needed:,} bytes, and the file has {size:,}"
            )
        with archive.open(f"{name}.npy") as file:
            array: npt.NDArray[Any] = numpy.read_array(file, allow_pickle=False)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path}: {name}: not a numpy array: {error!s:.80}") from None
    return array
