"""From labelled examples to the columns of a store.

texts       tokens, second (of pairs), and one of labels: the index of the class; several: the
            indices of all classes; values: the regression target
tags        tokens; labels, one for each: the index of a word's tag at its first piece, else -100
answers     question, tokens (of the context); labels: the first and the last token of the answer,
            or -1 -1 if there is none
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.readers.squad import Question
from glassformer.text import Encoding, Tokenizer

NONE = -100  # no label here


@dataclass(frozen=True)
class LabelledText:
    """One text or two, with a class index or a regression target, if any, or with the indices of
    several classes."""

    texts: tuple[str, ...]
    label: float | None = None
    several: tuple[int, ...] | None = None


@dataclass(frozen=True)
class LabelledWords:
    words: tuple[str, ...]
    tags: tuple[int, ...]


Document = (
    str | tuple[str, str] | LabelledText | LabelledWords | Question
)  # a pair is a translation


def texts_of(document: Document) -> tuple[str, ...]:
    """The text of a document, or both texts of a pair."""
    match document:
        case str():
            return (document,)
        case LabelledText():
            return document.texts
        case LabelledWords():
            return (" ".join(document.words),)
        case Question():
            return document.question, document.context
    return document


def mark_texts(
    chunk: Sequence[LabelledText], tokenizer: Tokenizer, columns: Sequence[str]
) -> Iterator[dict[str, Sequence[Any]]]:
    """Each text's token ids and labels, by column; `columns` are those of the store."""
    sides = [tokenizer.ids(side) for side in zip(*(each.texts for each in chunk), strict=True)]
    for each, ids in zip(chunk, zip(*sides, strict=True), strict=True):
        row: dict[str, Sequence[Any]] = dict(zip(("tokens", "second"), ids, strict=False))
        if each.label is not None:
            row["values" if "values" in columns else "labels"] = [each.label]
        if each.several is not None:
            row["several"] = each.several
        yield row


def mark_words(
    chunk: Sequence[LabelledWords], tokenizer: Tokenizer
) -> Iterator[dict[str, Sequence[Any]]]:
    """Each sentence's token ids and labels, by column."""
    encodings = tokenizer.encode_all(" ".join(each.words) for each in chunk)
    for each, encoding in zip(chunk, encodings, strict=True):
        inside = _inside(encoding)
        labels = [NONE] * len(inside)
        spans = [encoding.spans[i] for i in inside]
        for piece, tag in zip(first_pieces(each.words, spans), each.tags, strict=True):
            if piece is not None:
                labels[piece] = tag
        yield {"tokens": [encoding.ids[i] for i in inside], "labels": labels}


def first_pieces(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each word of " ".join(words) the first piece that overlaps it and no word before it;
    None if there is none."""
    pieces: list[int | None] = []
    piece = start = 0
    for word in words:
        end = start + len(word)
        while piece < len(spans) and spans[piece][1] <= start:
            piece += 1
        overlaps = piece < len(spans) and spans[piece][0] < end
        pieces.append(piece if overlaps else None)
        piece += overlaps
        start = end + 1
    return pieces


def mark_answers(
    chunk: Sequence[Question], tokenizer: Tokenizer
) -> Iterator[dict[str, Sequence[Any]]]:
    """Each question's token ids and the span of its first answer, by column."""
    contexts = list(dict.fromkeys(each.context for each in chunk))  # many questions share one
    encodings = dict(zip(contexts, tokenizer.encode_all(contexts), strict=True))
    for each, ids in zip(chunk, tokenizer.ids([each.question for each in chunk]), strict=True):
        encoding = encodings[each.context]
        inside = _inside(encoding)
        spans = [encoding.spans[i] for i in inside]
        tokens = [encoding.ids[i] for i in inside]
        yield {"question": ids, "tokens": tokens, "labels": _answer(each, spans)}


def _answer(question: Question, spans: Sequence[tuple[int, int]]) -> list[int]:
    if not question.answers:
        return [-1, -1]
    text, start = question.answers[0]
    end = start + len(text)
    inside = [i for i, (a, b) in enumerate(spans) if a < end and b > start]
    return [inside[0], inside[-1]] if inside else [-1, -1]


def _inside(encoding: Encoding) -> list[int]:
    return [i for i, special in enumerate(encoding.special) if not special]
