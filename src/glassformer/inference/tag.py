"""A label for each word, and the spans they make: parts of speech, names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from glassformer.errors import InputError, shown
from glassformer.inference.windows import logits, read
from glassformer.tasks import Task
from glassformer.text import Tokenizer

WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")  # don't, U.S.A, 3.14; any other sign alone
OUTSIDE = "O"
PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


@dataclass(frozen=True)
class Word:
    text: str
    label: str
    score: float  # the label's probability; 0 where no token stands for the word
    start: int  # in characters
    end: int


@dataclass(frozen=True)
class Span:
    """Neighbouring words that are one thing: a name, a phrase."""

    text: str
    label: str
    score: float  # the mean of its words'
    start: int
    end: int


@dataclass(frozen=True)
class Tagged:
    text: str
    words: tuple[Word, ...]
    spans: tuple[Span, ...]  # none if the labels do not make any: parts of speech

    @property
    def labels(self) -> list[str]:
        return [word.label for word in self.words]


def tag(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[str | Sequence[str]],
    *,
    overlap: int | None = None,
) -> list[Tagged]:
    """One label a word. A text is a string, or a list of words: they are put together by spaces.

    Of a word in several pieces the first one decides. In a text longer than the model, a word is
    seen in the window that shows most around it.
    """
    given = [_words(text, i) for i, text in enumerate(texts)]
    readings = read(task, tokenizer, [text for text, _ in given], overlap=overlap)
    found = []
    for (text, places), reading, parts in zip(given, readings, logits(task, readings), strict=True):
        owners: dict[int, int] = {}  # which token a character is of
        for token, (start, end) in enumerate(reading.encoding.spans):
            if reading.encoding.texts[token] == 0:
                owners |= {i: token for i in range(start, end) if i not in owners}
        words = []
        for start, end in places:
            token = next((owners[i] for i in range(start, end) if i in owners), -1)
            label, score = OUTSIDE if OUTSIDE in task.spec.labels else "", 0.0
            if token >= 0:
                home = reading.home(token)
                row = parts[home][reading.windows[home].index(token)]
                chances = row.softmax(-1) if len(row) > 1 else torch.sigmoid(row)
                best = int(chances.argmax())
                label, score = task.spec.labels[best], float(chances[best])
            words.append(Word(text[start:end], label, score, start, end))
        found.append(Tagged(text, tuple(words), _spans(text, words, task.spec.labels)))
    return found


def _words(text: str | Sequence[str], number: int) -> tuple[str, list[tuple[int, int]]]:
    """The text, and where its words stand."""
    if isinstance(text, str):
        return text, [match.span() for match in WORD.finditer(text)]
    if not isinstance(text, Sequence) or not all(isinstance(word, str) and word for word in text):
        raise InputError(f"text {number} is {shown(text)}: write a string, or a list of words")
    places, at = [], 0
    for word in text:
        places.append((at, at + len(word)))
        at += len(word) + 1
    return " ".join(text), places


def _spans(text: str, words: Sequence[Word], known: Sequence[str]) -> tuple[Span, ...]:
    if OUTSIDE not in known and not any(PREFIXED.fullmatch(label) for label in known):
        return ()
    found = []
    for label, first, last in chunks([word.label for word in words]):
        start, end = words[first].start, words[last - 1].end
        score = sum(word.score for word in words[first:last]) / (last - first)
        found.append(Span(text[start:end], label, score, start, end))
    return tuple(found)


def chunks(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """BIO labels as spans: their kind, the first word and the one behind the last.

    As the CoNLL scorer reads them, so that no sequence is wrong: I-X behind anything but an open X
    begins one, as B-X does. E- and L- end one, S- and U- are one of a single word. A label without
    such a letter is read as I-.
    """
    found: list[tuple[str, int, int]] = []
    going = False  # may the last one go on?
    for i, label in enumerate(labels):
        if label in (OUTSIDE, ""):
            going = False
            continue
        split = PREFIXED.fullmatch(label)
        letter, kind = split.groups() if split else ("I", label)
        if going and letter in "IEL" and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1], i + 1)
        else:
            found.append((kind, i, i + 1))
        going = letter in "BI"
    return found
