"""From labelled examples to the columns of a store.

texts       tokens, second (of pairs), labels: the number of a class, several: of each, or values
tags        tokens; labels: as many, the number of a word's tag at its first piece, else -100
answers     question, tokens (of the context); labels: the first and the last of the answer's
            tokens, or -1 -1 where there is none
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.readers.squad import Question
from glassformer.text import Encoding, Tokenizer

NONE = -100  # no answer is wanted here


@dataclass(frozen=True)
class LabelledText:
    """One text or two, with the number of their class, or the value they have, if any; or with
    the numbers of several classes."""

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
    sides = [tokenizer.ids(side) for side in zip(*(each.texts for each in chunk), strict=True)]
    for each, ids in zip(chunk, zip(*sides, strict=True), strict=True):
        found: dict[str, Sequence[Any]] = dict(zip(("tokens", "second"), ids, strict=False))
        if each.label is not None:
            found["values" if "values" in columns else "labels"] = [each.label]
        if each.several is not None:
            found["several"] = each.several
        yield found


def mark_words(
    chunk: Sequence[LabelledWords], tokenizer: Tokenizer
) -> Iterator[dict[str, Sequence[Any]]]:
    read = tokenizer.encode_all(" ".join(each.words) for each in chunk)
    for each, encoding in zip(chunk, read, strict=True):
        inside = _inside(encoding)
        labels = [NONE] * len(inside)
        spans = [encoding.spans[i] for i in inside]
        for piece, tag in zip(first_pieces(each.words, spans), each.tags, strict=True):
            if piece is not None:
                labels[piece] = tag
        yield {"tokens": [encoding.ids[i] for i in inside], "labels": labels}


def first_pieces(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each word of " ".join(words) the first piece that has a letter of it and of no word
    before it; None if there is none."""
    found: list[int | None] = []
    piece = at = 0
    for word in words:
        end = at + len(word)
        while piece < len(spans) and spans[piece][1] <= at:
            piece += 1
        mine = piece < len(spans) and spans[piece][0] < end
        found.append(piece if mine else None)
        piece += mine
        at = end + 1
    return found


def mark_answers(
    chunk: Sequence[Question], tokenizer: Tokenizer
) -> Iterator[dict[str, Sequence[Any]]]:
    contexts = list(dict.fromkeys(each.context for each in chunk))  # many questions ask the same
    read = dict(zip(contexts, tokenizer.encode_all(contexts), strict=True))
    for each, ids in zip(chunk, tokenizer.ids([each.question for each in chunk]), strict=True):
        encoding = read[each.context]
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
