"""Fill in the blank: the words that a masked language model predicts for [MASK]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import InputError, shown
from glassformer.inference.checks import check_top_k
from glassformer.inference.windows import WindowedText, encode_windows, rows
from glassformer.tasks import Task
from glassformer.text import Tokenizer

BLANK = MASK[0]  # accepted for every model, whatever its own mask token is


@dataclass(frozen=True)
class Candidate:
    """A word for a blank."""

    text: str
    probability: float
    id: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Blank:
    """A blank, its position in the text, and its candidates, best first."""

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
    """The blanks of each text. Several in one text are filled independently, as in training.

    Args:
        top_k: how many candidates for each blank
        overlap: tokens that neighbouring windows share; a quarter, if not given

    In a text longer than the model, a blank is read in the window with the most context.
    """
    check_top_k(top_k, "fill")
    mask = find_id(tokenizer, MASK)
    if mask is None:
        raise InputError(f"fill: the tokenizer has no mask token, such as {' or '.join(MASK)}")
    name = tokenizer.token(mask)
    blanks = [_blanks(text, i, name) for i, text in enumerate(texts)]
    masked = [text.replace(BLANK, name) for text in texts]
    windowed = encode_windows(task, tokenizer, masked, overlap=overlap)
    filled_blanks = []
    best = _best(task, windowed, mask, top_k)
    for i, (text, spans) in enumerate(zip(windowed, blanks, strict=True)):
        count = text.encoding.ids.count(mask)
        if count != len(spans):
            raise InputError(f"text {i}: the tokenizer finds {count} of its {len(spans)} blanks")
        candidates = [_candidates(tokenizer, *next(best)) for _ in spans]
        pairs = zip(spans, candidates, strict=True)
        filled_blanks.append([Blank(*span, words) for span, words in pairs])
    return filled_blanks


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
        raise InputError(
            f"text {number} is {shown(text)}, without {BLANK}: write it for each missing word"
        )
    return spans


@torch.no_grad()
def _best(
    task: Task, windowed: Sequence[WindowedText], mask: int, top_k: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The probabilities and ids of the best words, blank by blank."""
    ids, segments = rows(task, windowed)
    chosen = (
        number == text.best_window(place)
        for text in windowed
        for number, window in enumerate(text.windows)
        for place in window.places
        if text.encoding.ids[place] == mask
    )
    for batch in task.batches(ids, segments=segments):
        masked = (batch.tokens == mask).nonzero().flatten()
        scores = task(replace(batch, label_positions=masked)).logits.float()  # (P, V)
        best, words = scores.softmax(-1).topk(min(top_k, scores.shape[1]))
        for row in zip(best.cpu(), words.cpu(), strict=True):
            if next(chosen):
                yield row


def _candidates(tokenizer: Tokenizer, best: Tensor, ids: Tensor) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(tokenizer.decode([i]).strip() or tokenizer.token(i), probability, i)
        for probability, i in zip(best.tolist(), ids.tolist(), strict=True)
    )
