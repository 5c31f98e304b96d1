"""From text to a store of token ids, in one pass that can be interrupted and resumed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, Literal, cast

from glassformer.data.encoding_processes import encode_in_processes
from glassformer.data.fingerprints import difference, fingerprints
from glassformer.data.label_alignment import (
    Document,
    LabelledText,
    mark_answers,
    mark_texts,
    mark_words,
    texts_of,
)
from glassformer.data.readers.files import PACKED
from glassformer.data.readers.files import kind as suffix
from glassformer.data.readers.tables import KINDS
from glassformer.data.special_tokens import SpecialTokenTemplate, end_of_text
from glassformer.data.store import OTHERS, ColumnName, Meta, Writer, read_meta
from glassformer.durable import remove
from glassformer.errors import InputError, shown
from glassformer.text import Tokenizer

StoreKind = Literal[
    "text", "sentences", "pairs", "classes", "class_pairs", "several", "several_pairs", "values",
    "value_pairs", "alike", "documents", "document_values", "tags", "answers",
]  # fmt: skip
COLUMNS: dict[StoreKind, list[ColumnName]] = {
    "text": ["tokens"],
    "sentences": ["tokens", "sentences"],
    "pairs": ["source", "target"],
    "classes": ["tokens", "labels"],
    "class_pairs": ["tokens", "second", "labels"],
    "several": ["tokens", "several"],
    "several_pairs": ["tokens", "second", "several"],
    "values": ["tokens", "values"],
    "value_pairs": ["tokens", "second", "values"],
    "alike": ["tokens", "second"],
    "documents": ["tokens", "sentences", "labels"],
    "document_values": ["tokens", "sentences", "values"],
    "tags": ["tokens", "labels"],
    "answers": ["question", "tokens", "labels"],
}
CHUNK = 1 << 20  # characters encoded at once: the tokenizer spreads them over all cores
PART, NEAR = 1 << 16, 256  # characters of a part of a long document, and tested around a cut
SHARD = 1 << 25  # tokens
# Ends after a run of marks, matched possessively: a page of dots takes linear time.
_SENTENCE = re.compile(r"[^\n]*?(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[^\n]+")


@dataclass(frozen=True)
class Progress:
    documents: int
    characters: int
    tokens: int
    share: float | None = None  # of all the work, if it is known


@dataclass(frozen=True)
class EncodedChunk:
    """The ids of some documents, by column, and the size of their texts."""

    documents: list[dict[str, Sequence[int]]]
    characters: int
    bytes: int


@dataclass(frozen=True)
class ChunkEncoder:
    """How documents become ids."""

    tokenizer: Tokenizer
    kind: StoreKind
    end: tuple[int, ...]  # appended to plain texts

    def __call__(self, chunk: list[Document]) -> EncodedChunk:
        ids = list(encode(chunk, self.tokenizer, self.kind, self.end))
        return EncodedChunk(ids, sum(map(_size, chunk)), sum(map(text_bytes, chunk)))


def prepare(
    documents: Iterable[Document], tokenizer: Tokenizer, folder: Path, *, kind: StoreKind,
    sources: Sequence[str] = (), files: Mapping[str, Path] | None = None, shard: int = SHARD,
    again: bool = False, labels: Sequence[str] = (), workers: int = 1,
    source_documents: list[int] | None = None,
) -> Iterator[Progress]:  # fmt: skip
    """Write the store and yield the progress; shards finished before an interruption are reused.

    `files` are those that the documents come from: they must not change until the store is done,
    nor before it is reused. With `again`, a store made from other data is replaced. `labels` are
    the names of the documents' classes. `workers` processes encode: the store is the same, byte for
    byte, whatever their number. `source_documents` has the documents of each source, once all are
    read.
    """
    end = end_of_text(tokenizer, SpecialTokenTemplate.of(tokenizer)) if kind == "text" else ()
    expected = Meta(
        fingerprint=tokenizer.fingerprint,
        kind="<u2" if tokenizer.highest < 1 << 16 else "<u4",
        columns=COLUMNS[kind],
        end=list(end),
        sources=[str(source) for source in sources],
        labels=list(labels),
    )
    before = read_meta(folder)
    try:
        _check_same(before or expected, expected, files, folder)
    except InputError:
        if not again:
            raise
        remove(folder)
        before = None
    if before is None:
        expected.files = fingerprints(files or {})
    meta = before or expected
    writer = Writer(folder, meta)
    done, characters = sum(meta.documents), 0
    total, read = (None if done else plain_size((files or {}).values(), kind)), 0
    tokens = sum(sum(each) for name, each in meta.tokens.items() if name not in OTHERS)
    if meta.done:
        yield Progress(done, characters, tokens)
        return
    unread = chunks(islice(documents, done, None))
    for chunk in _encoded(unread, ChunkEncoder(tokenizer, kind, end), workers):
        for document in chunk.documents:
            tokens += sum(len(ids) for name, ids in document.items() if name not in OTHERS)
            writer.add(document)
        done, characters = done + len(chunk.documents), characters + chunk.characters
        if writer.size >= shard:
            writer.close_shard()
        read += chunk.bytes
        share = min(1.0, read / total) if total else None
        yield Progress(done, characters, tokens, share)
    if done == 0:
        raise InputError(f"{', '.join(map(str, sources)) or folder}: there is no text in it")
    meta.source_documents = list(source_documents or ())
    writer.close_shard(done=True)


def _encoded(
    unread: Iterator[list[Document]], encoder: ChunkEncoder, workers: int
) -> Iterator[EncodedChunk]:
    if workers == 1:
        return map(encoder, unread)
    return encode_in_processes(unread, encoder, workers)


def _check_same(
    before: Meta, expected: Meta, files: Mapping[str, Path] | None, folder: Path
) -> None:
    for name in ("fingerprint", "kind", "columns", "sources", "labels"):
        if getattr(before, name) != getattr(expected, name):
            raise InputError(
                f"{folder}: other data was prepared here ({name}: {getattr(before, name)!r:.60}): "
                "choose another folder, or delete this one"
            )
    if before.files and files is not None and (what := difference(before.files, files)):
        raise InputError(
            f"{what} since {folder} was prepared: put it back as it was, choose another --out, or "
            "delete that folder and what was trained on it"
        )


def parts(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the text in parts whose tokens, concatenated, are those of the whole text.

    A tokenizer needs about 500 bytes for each token it makes, so a long document is cut where that
    does not change the tokens. Each cut is tested; if every cut changes them, nothing is cut.
    """
    start = 0
    while len(text) - start > PART:
        clean = (at for at in _spaces(text, start) if _is_clean(text, at, tokenizer))
        cut = next(clean, len(text))
        yield text[start:cut]
        start = cut
    if start < len(text) or not text:
        yield text[start:]


def _spaces(text: str, start: int) -> Iterator[int]:
    """A few positions to cut before the end of a part: line ends, then spaces."""
    for mark in ("\n", " "):
        at = start + PART
        for _ in range(8):
            at = text.rfind(mark, start + PART // 2, at)
            if at < 0:
                break
            yield at


def _is_clean(text: str, at: int, tokenizer: Tokenizer) -> bool:
    before, after = text[max(0, at - NEAR) : at], text[at : at + NEAR]
    joined, left, right = tokenizer.ids([before + after, before, after])
    return joined == left + right


def sentences(text: str) -> list[str]:
    """Split a text at line ends and after each full stop, question or exclamation mark."""
    return [sentence for each in _SENTENCE.findall(text) if (sentence := each.strip())]


def text_bytes(document: Document) -> int:
    """The bytes of its texts and line ends in a file."""
    return sum(len(text.encode("utf-8", "replace")) + 1 for text in texts_of(document))


def plain_size(files: Iterable[Path], kind: StoreKind) -> int | None:
    """The bytes of these files; None if one of them is packed, or a table with other columns."""
    sizes = []
    for file in files:
        if file.is_dir() or file.suffix.lower() in PACKED:
            return None
        if kind != "pairs" and suffix(file) in KINDS:
            return None
        sizes.append(file.stat().st_size)
    return sum(sizes)


def _size(document: Document) -> int:
    return sum(map(len, texts_of(document)))


def chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Group documents into the chunks that are encoded at once."""
    chunk: list[Document] = []
    filled = 0
    for document in documents:
        chunk.append(document)
        filled += _size(document)
        if filled >= CHUNK:
            yield chunk
            chunk, filled = [], 0
    if chunk:
        yield chunk


def encode(
    chunk: list[Document], tokenizer: Tokenizer, kind: StoreKind, end: tuple[int, ...] = ()
) -> Iterator[dict[str, Sequence[int]]]:
    """Yield each document's ids, by column; `end` is appended to plain texts."""
    try:
        yield from _encode(chunk, tokenizer, kind, end)
    except InputError as error:
        raise _unreadable(chunk, tokenizer) or error from None


def _encode(
    chunk: list[Document], tokenizer: Tokenizer, kind: StoreKind, end: tuple[int, ...]
) -> Iterator[dict[str, Sequence[int]]]:
    if kind == "tags":
        yield from mark_words(cast("Any", chunk), tokenizer)
    elif kind == "answers":
        yield from mark_answers(cast("Any", chunk), tokenizer)
    elif kind == "pairs":
        sources, targets = zip(*map(texts_of, chunk), strict=True)
        sides = tokenizer.ids(sources), tokenizer.target.ids(targets)
        for source, target in zip(*sides, strict=True):
            yield {"source": source, "target": target}
    elif kind == "text":
        for row in _texts([str(each) for each in chunk], tokenizer, end):
            yield {"tokens": row}
    elif "sentences" in COLUMNS[kind]:
        texts = [texts_of(each)[0] for each in chunk]
        for each, (ids, starts) in zip(chunk, _sentences(texts, tokenizer), strict=True):
            label: dict[str, Any] = {}
            if isinstance(each, LabelledText):
                label = {COLUMNS[kind][-1]: [each.label]}
            yield {"tokens": ids, "sentences": starts, **label}
    else:
        yield from mark_texts(cast("Any", chunk), tokenizer, COLUMNS[kind])


def _unreadable(chunk: list[Document], tokenizer: Tokenizer) -> InputError | None:
    """An error that names the first character the tokenizer cannot encode, and its context."""
    for document in chunk:
        for text in texts_of(document):
            for at, letter in enumerate(text):
                try:
                    tokenizer.ids([letter])
                except InputError:
                    return InputError(
                        f"the tokenizer does not know {letter!r}, as in "
                        f"{shown(text[max(0, at - 20) : at + 20])}: train a tokenizer on "
                        "this text, or use one that covers all characters (bpe, bytes)"
                    )
    return None


def _texts(texts: list[str], tokenizer: Tokenizer, end: tuple[int, ...]) -> Iterator[array[int]]:
    split_texts = [list(parts(text, tokenizer)) for text in texts]
    groups = chunks(chain.from_iterable(split_texts))
    ids = chain.from_iterable(tokenizer.ids([str(each) for each in group]) for group in groups)
    for parts_of_text in split_texts:
        yield array("I", chain(*islice(ids, len(parts_of_text)), end))


def _sentences(texts: list[str], tokenizer: Tokenizer) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the ids of each text, and where its sentences begin."""
    split_texts = [sentences(text) for text in texts]
    encoded = iter(tokenizer.ids([each for text in split_texts for each in text]))
    for text in split_texts:
        non_empty = [ids for ids in islice(encoded, len(text)) if ids]
        starts = [0, *accumulate(map(len, non_empty))][:-1]
        yield [i for ids in non_empty for i in ids], starts
