"""Extractive question answering: where a text answers a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import CheckpointError, InputError, shown
from glassformer.inference.checks import check_top_k
from glassformer.inference.windows import WindowedText, encode_windows, logits
from glassformer.tasks import Task
from glassformer.text import Tokenizer


@dataclass(frozen=True)
class Answer:
    """context[start:end]; an empty text means that the context has no answer."""

    text: str
    start: int
    end: int
    score: float  # its probability among all spans of all windows

    def __str__(self) -> str:
        return self.text

    def cells(self) -> dict[str, Any]:
        """The answer as columns of a table."""
        names = {"answer": self.text, "probability": self.score}
        return {**names, "start": self.start, "end": self.end}


@dataclass(frozen=True)
class Search:
    """The options of `answer`."""

    top_k: int = 1
    no_answer: bool = False
    threshold: float = 0.0
    max_tokens: int = 30


def answer(
    task: Task,
    tokenizer: Tokenizer,
    questions: Sequence[tuple[str, str]],
    *,
    top_k: int = 1,
    no_answer: bool = False,
    threshold: float = 0.0,
    max_tokens: int = 30,
    overlap: int | None = None,
) -> list[list[Answer]]:
    """The best answers to each question.

    Args:
        questions: pairs (question, context); a context longer than the model is read in windows,
            and the logits of all windows are compared
        top_k: the most answers to a question
        no_answer: allow that there is none, as in SQuAD 2: if the logits of the first token, [CLS],
            in the window where they are lowest, exceed those of the best span
        threshold: by how much they have to exceed them
        max_tokens: the longest answer
        overlap: tokens that neighbouring windows share; a quarter, if not given
    """
    check_top_k(top_k, "answer")
    if type(max_tokens) is not int or max_tokens < 1:
        raise InputError(f"max_tokens = {max_tokens!r}: write a whole number from 1 on")
    if not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise InputError(f"threshold = {threshold!r}: write a number")
    for i, pair in enumerate(questions):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"question {i} is {shown(pair)}: write (question, context)")
        for name, content in zip(("question", "context"), pair, strict=True):
            if not isinstance(content, str) or not content.strip():
                raise InputError(f"{name} {i} is {shown(content)}: write a text")
    search = Search(top_k, no_answer, threshold, max_tokens)
    windowed = encode_windows(task, tokenizer, questions, side=1, overlap=overlap)
    for i, text in enumerate(windowed):
        if 1 not in text.encoding.texts:
            raise InputError(
                f"context {i} is {shown(questions[i][1])}: the tokenizer finds no token in it"
            )
    return [
        _answers(context, text, parts, search)
        for (_, context), text, parts in zip(
            questions, windowed, logits(task, windowed), strict=True
        )
    ]


def _answers(
    context: str, windowed: WindowedText, parts: Sequence[Tensor], search: Search
) -> list[Answer]:
    logits_of: dict[tuple[int, int], float] = {}  # the same span may be in two windows
    spans, totals, nothing = windowed.encoding.spans, [], math.inf
    for window, scores in zip(windowed.windows, parts, strict=True):
        inside = spans[window.start : window.end]
        own = scores[window.lead : window.lead + len(inside)]
        sums = span_logits(own, [context[a:b] for a, b in inside], search.max_tokens)
        totals.append(sums.flatten().logsumexp(0))
        nothing = min(nothing, float(scores[0].sum()))
        best, places = sums.flatten().topk(min(search.top_k, sums.numel()))
        for value, place in zip(best.tolist(), places.tolist(), strict=True):
            first, further = divmod(place, sums.shape[1])
            if math.isfinite(value):
                span = _trimmed(context, inside[first][0], inside[first + further][1])
                logits_of[span] = max(value, logits_of.get(span, -math.inf))
    if search.no_answer:
        if not windowed.encoding.special[0]:
            raise InputError(
                "no_answer: this model has no first token that stands for it: leave it out"
            )
        totals.append(torch.tensor(nothing, dtype=torch.double))
        logits_of[0, 0] = nothing
    whole = float(torch.stack(totals).logsumexp(0))
    if math.isnan(whole):
        raise CheckpointError("the model computed NaN: check its weights")
    handicap = {(0, 0): search.threshold}
    ranked = sorted(logits_of, key=lambda span: handicap.get(span, 0.0) - logits_of[span])
    return [
        Answer(context[start:end], start, end, math.exp(logits_of[start, end] - whole))
        for start, end in ranked[: search.top_k]
    ]


def span_logits(
    scores: Tensor, pieces: Sequence[str], max_tokens: int
) -> Tensor:  # (T, 2) → (T, L)
    """Logits of start + end of the spans of 1 … L tokens from token i; −∞ if invalid.

    `pieces` are the characters of each token: no span starts or ends with white space alone.
    """
    space = torch.tensor([not piece.strip() for piece in pieces], device=scores.device)
    starts, ends = scores.masked_fill(space[:, None], -math.inf).unbind(-1)
    longest = min(max_tokens, len(pieces))
    return starts[:, None] + F.pad(ends, (0, longest - 1), value=-math.inf).unfold(0, longest, 1)


def _trimmed(context: str, start: int, end: int) -> tuple[int, int]:
    """Without surrounding spaces: tokens of some tokenizers begin with one."""
    text = context[start:end]
    return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
