"""The documents of files and folders, as `data prepare` and `data stats` read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from glassformer.data.label_alignment import Document
from glassformer.data.prepare import chunks, encode, plain_size
from glassformer.data.readers.files import UTF8
from glassformer.data.readers.files import kind as suffix
from glassformer.data.readers.parallel import pairs
from glassformer.data.readers.tables import sources
from glassformer.data.readers.text import documents
from glassformer.data.stats import EXAMPLES, CorpusStats
from glassformer.data.store import META, Store
from glassformer.errors import ConfigError, InputError
from glassformer.text import Tokenizer
from glassformer.text.describe import describe

CorpusKind = Literal["text", "sentences", "pairs"]


def read_corpus(
    paths: Sequence[Path], kind: CorpusKind, field: str, encoding: str = UTF8
) -> Iterator[Document]:
    """Every document of these files and folders.

    Args:
        kind: "pairs" are a .tsv file, or two files line by line
        field: the text column of tables such as .jsonl and .csv
        encoding: of all files
    """
    if kind != "pairs":
        return chain.from_iterable(documents(path, field, encoding=encoding) for path in paths)
    if len(paths) == 2 and not any(suffix(path) == ".tsv" for path in paths):
        return pairs(paths[0], paths[1], encoding=encoding)
    return chain.from_iterable(pairs(path, encoding=encoding) for path in paths)


def corpus_files(paths: Sequence[Path]) -> list[Path]:
    """The files of these paths."""
    return [file for path in paths for file in sources(path)]


def corpus_bytes(paths: Sequence[Path], kind: CorpusKind) -> int | None:
    """The size of the text in bytes; None if the file sizes do not show it."""
    return plain_size(corpus_files(paths), kind)


def is_store(path: Path) -> bool:
    """Whether `data prepare` wrote this folder."""
    return (path / META).is_file()


def corpus_stats(
    texts: Iterable[Document], tokenizer: Tokenizer, kind: CorpusKind, length: int | None = None
) -> CorpusStats:
    """Statistics of documents; `length` is the most tokens that a model reads at once."""
    stats = CorpusStats(describe(tokenizer)["unknown"], length)
    for chunk in chunks(iter(texts)):
        for text, ids in zip(chunk, encode(chunk, tokenizer, kind), strict=True):
            before = stats.unknown_count
            stats.add(ids, text)
            if stats.unknown_count > before and len(stats.examples) < EXAMPLES:
                stats.show_unknown(text, tokenizer)
    return stats


def store_stats(
    paths: Sequence[Path], tokenizer: Tokenizer, length: int | None = None
) -> CorpusStats:
    """Statistics of a prepared store; ConfigError if there are several."""
    if len(paths) > 1:
        raise ConfigError(f"{paths[1]}: give one store at a time")
    stats = CorpusStats(describe(tokenizer)["unknown"], length)
    store = Store(paths[0])
    store.check(tokenizer.fingerprint)
    store.verify(tokenizer.highest + 1)
    columns = [column.lists() for column in store.columns.values()]
    for parts in zip(*columns, strict=True):
        ids = dict(zip(store.columns, parts, strict=True))
        if store.end:
            ids["tokens"] = ids["tokens"][: -len(store.end)]
        stats.add(ids)
    return stats


def check_not_empty(stats: CorpusStats, path: Path) -> None:
    """InputError if there was no document."""
    if not stats.documents:
        raise InputError(f"{path}: there is no text in it")
