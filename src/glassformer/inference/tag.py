"""Token classification: a label for each word, and the spans they form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from glassformer.errors import InputError, shown
from glassformer.inference.windows import encode_windows, logits
from glassformer.tasks import Task
from glassformer.text import Tokenizer

WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|[^\w\s]")  # don't, U.S.A, 3.14; other characters alone
OUTSIDE = "O"
PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


@dataclass(frozen=True)
class Word:
    """A word of a text and its label."""

    text: str
    label: str
    score: float  # the label's probability; 0 if the word has no token
    start: int  # in characters
    end: int


@dataclass(frozen=True)
class Span:
    """Neighbouring words that form one unit: a name, a phrase."""

    text: str
    label: str
    score: float  # the mean of its words' scores
    start: int
    end: int


@dataclass(frozen=True)
class Tagged:
    """A text with the labels of its words."""

    text: str
    words: tuple[Word, ...]
    spans: tuple[Span, ...]  # empty if the labels have none, such as parts of speech

    @property
    def labels(self) -> list[str]:
        return [word.label for word in self.words]

    def cells(self) -> dict[str, Any]:
        """The labels as columns of a table: words and their labels between spaces, and spans."""
        words = " ".join(word.text for word in self.words)
        return {
            "words": words, "labels": " ".join(self.labels),
            "spans": [asdict(span) for span in self.spans],
        }  # fmt: skip


def tag(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[str | Sequence[str]],
    *,
    overlap: int | None = None,
) -> list[Tagged]:
    """One label per word; the first token of a word decides.

    Args:
        texts: strings, or lists of words, which are joined with spaces
        overlap: tokens that neighbouring windows share; a quarter, if not given

    In a text longer than the model, a word is read in the window with the most context.
    """
    split = [_words(text, i) for i, text in enumerate(texts)]
    windowed = encode_windows(task, tokenizer, [text for text, _ in split], overlap=overlap)
    results = []
    for (text, places), read, parts in zip(split, windowed, logits(task, windowed), strict=True):
        owners: dict[int, int] = {}  # the token of each character
        for token, (start, end) in enumerate(read.encoding.spans):
            if read.encoding.texts[token] == 0:
                owners |= {i: token for i in range(start, end) if i not in owners}
        words = []
        for start, end in places:
            token = next((owners[i] for i in range(start, end) if i in owners), -1)
            label, score = OUTSIDE if OUTSIDE in task.spec.labels else "", 0.0
            if token >= 0:
                window = read.best_window(token)
                row = parts[window][read.windows[window].index(token)]
                probabilities = row.softmax(-1) if len(row) > 1 else torch.sigmoid(row)
                best = int(probabilities.argmax())
                label, score = task.spec.labels[best], float(probabilities[best])
            words.append(Word(text[start:end], label, score, start, end))
        results.append(Tagged(text, tuple(words), _spans(text, words, task.spec.labels)))
    return results


def _words(text: str | Sequence[str], number: int) -> tuple[str, list[tuple[int, int]]]:
    """The text, and the spans of its words."""
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
    spans = []
    for label, first, last in chunks([word.label for word in words]):
        start, end = words[first].start, words[last - 1].end
        score = sum(word.score for word in words[first:last]) / (last - first)
        spans.append(Span(text[start:end], label, score, start, end))
    return tuple(spans)


def chunks(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """BIO labels as spans: their kind, the first word and the one after the last.

    They are read as by the CoNLL scorer, so that every sequence is valid: I-X after anything but an
    open X begins a span, as B-X does. E- and L- end one, S- and U- are spans of a single word. A
    label without such a letter counts as I-.
    """
    spans: list[tuple[str, int, int]] = []
    is_open = False  # may the last span continue?
    for i, label in enumerate(labels):
        if label in (OUTSIDE, ""):
            is_open = False
            continue
        split = PREFIXED.fullmatch(label)
        letter, kind = split.groups() if split else ("I", label)
        if is_open and letter in "IEL" and spans[-1][0] == kind:
            spans[-1] = (kind, spans[-1][1], i + 1)
        else:
            spans.append((kind, i, i + 1))
        is_open = letter in "BI"
    return spans
