"""Find the answer to a question in a text: where it begins and ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import InputError, shown
from glassformer.inference.checks import check_top_k
from glassformer.inference.windows import WindowedText, logits, read
from glassformer.tasks import Task
from glassformer.text import Tokenizer


@dataclass(frozen=True)
class Answer:
    """context[start:end]; an empty text says that the answer is not there."""

    text: str
    start: int
    end: int
    score: float  # its probability among all spans of all windows

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Search:
    top_k: int = 1
    no_answer: bool = False
    threshold: float = 0.0
    max_tokens: int = 30


def answer(
    task: Task,
    tokenizer: Tokenizer,
    asked: Sequence[tuple[str, str]],
    *,
    top_k: int = 1,
    no_answer: bool = False,
    threshold: float = 0.0,
    max_tokens: int = 30,
    overlap: int | None = None,
) -> list[list[Answer]]:
    """For each (question, context) the best answers, at most `top_k`.

    An answer has at most `max_tokens` tokens. A context longer than the model is read in windows,
    and the logits of all of them are compared. `no_answer` lets the model say that there is none,
    as in SQuAD 2: if the scores of the first token, [CLS], in the window where they are lowest, are
    more than `threshold` above those of the best span.
    """
    check_top_k(top_k, "answer")
    if type(max_tokens) is not int or max_tokens < 1:
        raise InputError(f"max_tokens = {max_tokens!r}: write a whole number from 1 on")
    if not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise InputError(f"threshold = {threshold!r}: write a number")
    for i, pair in enumerate(asked):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"question {i} is {shown(pair)}: write (question, context)")
        for name, text in zip(("question", "context"), pair, strict=True):
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"{name} {i} is {shown(text)}: write a text")
    search = Search(top_k, no_answer, threshold, max_tokens)
    readings = read(task, tokenizer, asked, side=1, overlap=overlap)
    for i, reading in enumerate(readings):
        if 1 not in reading.encoding.texts:
            raise InputError(f"context {i} is {shown(asked[i][1])}: no token stands for it")
    return [
        _answers(context, reading, parts, search)
        for (_, context), reading, parts in zip(
            asked, readings, logits(task, readings), strict=True
        )
    ]


def _answers(
    context: str, reading: WindowedText, parts: Sequence[Tensor], search: Search
) -> list[Answer]:
    found: dict[tuple[int, int], float] = {}  # the same span may be in two windows
    spans, totals, nothing = reading.encoding.spans, [], math.inf
    for window, scores in zip(reading.windows, parts, strict=True):
        inside = spans[window.start : window.end]
        sums = _sums(context, inside, scores[window.lead : window.lead + len(inside)], search)
        totals.append(sums.flatten().logsumexp(0))
        nothing = min(nothing, float(scores[0].sum()))
        best, places = sums.flatten().topk(min(search.top_k, sums.numel()))
        for value, place in zip(best.tolist(), places.tolist(), strict=True):
            first, further = divmod(place, sums.shape[1])
            if math.isfinite(value):
                where = _trimmed(context, inside[first][0], inside[first + further][1])
                found[where] = max(value, found.get(where, -math.inf))
    if search.no_answer:
        if not reading.encoding.special[0]:
            raise InputError("no_answer: this model puts no token in front to say so: leave it out")
        totals.append(torch.tensor(nothing, dtype=torch.double))
        found[0, 0] = nothing
    whole = float(torch.stack(totals).logsumexp(0))
    handicap = {(0, 0): search.threshold}
    ranked = sorted(found, key=lambda where: handicap.get(where, 0.0) - found[where])
    return [
        Answer(context[start:end], start, end, math.exp(found[start, end] - whole))
        for start, end in ranked[: search.top_k]
    ]


def _sums(
    context: str, inside: Sequence[tuple[int, int]], scores: Tensor, search: Search
) -> Tensor:
    """Start + end of every span, (T, L): from token i on, of 1 … L tokens. −∞ if it is none."""
    space = torch.tensor([not context[start:end].strip() for start, end in inside])
    starts, ends = scores.masked_fill(space[:, None], -math.inf).unbind(-1)
    longest = min(search.max_tokens, len(inside))
    return starts[:, None] + F.pad(ends, (0, longest - 1), value=-math.inf).unfold(0, longest, 1)


def _trimmed(context: str, start: int, end: int) -> tuple[int, int]:
    """A token of some tokenizers has the space in front of it."""
    text = context[start:end]
    return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
