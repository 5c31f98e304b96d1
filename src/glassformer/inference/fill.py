"""Fill in the blank: which words a masked language model sees in place of [MASK]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import InputError, shown
from glassformer.inference.checks import check_top_k
from glassformer.inference.windows import WindowedText, read, rows
from glassformer.tasks import Task
from glassformer.text import Tokenizer

BLANK = MASK[0]  # how a blank may be written, whatever the model calls it


@dataclass(frozen=True)
class Candidate:
    text: str
    probability: float
    id: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Blank:
    """A blank, where it stands in the text, and what could fill it, best first."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]


def fill(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    top_k: int = 5,
    overlap: int | None = None,
) -> list[list[Blank]]:
    """For each text its blanks. Several in one text are filled each for itself, as in training.

    In a text longer than the model, a blank is seen in the window that shows most around it.
    """
    check_top_k(top_k, "fill")
    mask = find_id(tokenizer, MASK)
    if mask is None:
        raise InputError(f"fill: the tokenizer knows no mask token: {' or '.join(MASK)}")
    name = tokenizer.token(mask)
    blanks = [_blanks(text, i, name) for i, text in enumerate(texts)]
    written = [text.replace(BLANK, name) for text in texts]
    readings = read(task, tokenizer, written, overlap=overlap)
    found = []
    best = _best(task, readings, mask, top_k)
    for i, (reading, spans) in enumerate(zip(readings, blanks, strict=True)):
        count = reading.encoding.ids.count(mask)
        if count != len(spans):
            raise InputError(f"text {i}: the tokenizer sees {count} of its {len(spans)} blanks")
        filled = [_candidates(tokenizer, *next(best)) for _ in spans]
        found.append([Blank(*span, each) for span, each in zip(spans, filled, strict=True)])
    return found


def filled(text: str, blanks: Sequence[Blank]) -> str:
    """The text with the best word in each blank."""
    for blank in reversed(blanks):
        text = text[: blank.start] + blank.candidates[0].text + text[blank.end :]
    return text


def _blanks(text: str, number: int, name: str) -> list[tuple[int, int]]:
    if not isinstance(text, str):
        raise InputError(f"text {number} is {shown(text)}: write a string")
    pattern = "|".join(map(re.escape, dict.fromkeys((BLANK, name))))
    spans = [match.span() for match in re.finditer(pattern, text)]
    if not spans:
        raise InputError(f"text {number} is {shown(text)}: write {BLANK} where a word is missing")
    return spans


@torch.no_grad()
def _best(
    task: Task, readings: Sequence[WindowedText], mask: int, top_k: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The probabilities and ids of the best words, for one blank after the other."""
    ids, segments = rows(task, readings)
    asked = (
        number == reading.home(place)
        for reading in readings
        for number, window in enumerate(reading.windows)
        for place in window.places
        if reading.encoding.ids[place] == mask
    )
    for batch in task.batches(ids, segments=segments):
        wanted = (batch.tokens == mask).nonzero().flatten()
        scores = task(replace(batch, label_positions=wanted)).logits.float()  # (P, V)
        best, found = scores.softmax(-1).topk(min(top_k, scores.shape[1]))
        for row in zip(best.cpu(), found.cpu(), strict=True):
            if next(asked):
                yield row


def _candidates(tokenizer: Tokenizer, best: Tensor, ids: Tensor) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(tokenizer.decode([i]).strip() or tokenizer.token(i), probability, i)
        for probability, i in zip(best.tolist(), ids.tolist(), strict=True)
    )
