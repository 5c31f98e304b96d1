"""Logits processors: each setting is a function from scores to scores.

They take scores (B, V) and the texts of the rows, and return new scores: nothing is changed in
place. A forbidden token has the score -∞. `processors` gives them in the order of transformers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.generate.settings import Settings
from glassformer.kernels.spans import triton_works
from glassformer.model.sequences import move

NEVER = -math.inf
Numbers = npt.NDArray[np.int64]
PIECE = 64  # tokens
SMALL_TEMPERATURE = 1e-6
SMALLEST_TEMPERATURE = 1e-30  # float32 has no much smaller numbers


@dataclass(frozen=True, eq=False)
class LogitRows:
    """The texts of the rows of scores. Counts are NumPy arrays, so that reading them never waits.

    history    ·  ·  7  3      right-aligned, -1 before the beginning
               5  2  9  4
    """

    history: Tensor  # (B, S); empty if no setting depends on it
    lengths: Numbers  # (B,) of the whole texts
    generated: Numbers  # (B,) how many of their tokens are new
    remaining: Numbers  # (B,) how many more may follow

    @classmethod
    def of(
        cls,
        texts: Sequence[Sequence[int]],
        generated: Sequence[int],
        remaining: Sequence[int],
        device: torch.device | str,
        *,
        looks_back: bool = True,
    ) -> LogitRows:
        """From token ids; `looks_back` keeps the history."""
        lengths = [len(text) for text in texts]
        longest = max(lengths, default=0) if looks_back else 0
        filled = [[-1] * (longest - len(text)) + list(text) for text in texts if looks_back]
        history = torch.tensor(filled, dtype=torch.long).reshape(len(texts), longest)
        counts = (np.array(each, dtype=np.int64) for each in (lengths, generated, remaining))
        return cls(history.to(device), *counts)

    def add(self, tokens: Tensor) -> LogitRows:
        """Append one token to each row."""
        history = self.history
        if history.shape[1]:
            history = torch.cat([history, tokens[:, None]], 1)
        return LogitRows(history, self.lengths + 1, self.generated + 1, self.remaining - 1)

    def select(self, index: Numbers) -> LogitRows:
        """These rows, in this order."""
        history = self.history[torch.from_numpy(index).to(self.history.device)]
        return LogitRows(history, self.lengths[index], self.generated[index], self.remaining[index])

    def join(self, other: LogitRows) -> LogitRows:
        """These rows, then the others; the history is as long as the longest text."""
        both = (self, other)
        longest = max((int(max(each.lengths)) for each in both if len(each.lengths)), default=0)
        longest = min(longest, max(each.history.shape[1] for each in both))
        histories = [
            F.pad(each.history, (longest - each.history.shape[1], 0), value=-1) for each in both
        ]
        return LogitRows(
            torch.cat(histories),
            np.concatenate([self.lengths, other.lengths]),
            np.concatenate([self.generated, other.generated]),
            np.concatenate([self.remaining, other.remaining]),
        )


Processor = Callable[[Tensor, LogitRows], Tensor]


def processors(settings: Settings, vocab: int, device: torch.device | str) -> tuple[Processor, ...]:
    """The processors of these settings, in order; none for plain greedy decoding."""
    steps: list[Processor] = []

    def tensor(tokens: Sequence[int]) -> Tensor:
        return torch.tensor(tokens, dtype=torch.long, device=device)

    if settings.repetition_penalty != 1.0:
        steps.append(partial(penalise_repetition, penalty=settings.repetition_penalty))
    if settings.no_repeat_ngram_size:
        steps.append(partial(forbid_repeated_ngrams, size=settings.no_repeat_ngram_size))
    words = [
        ids
        for ids in settings.bad_words_ids
        if ids not in {(end,) for end in settings.eos_token_id}
    ]
    single = [ids[0] for ids in words if len(ids) == 1]
    if single:
        steps.append(partial(forbid_tokens, tokens=tensor(single)))
    for size in sorted({len(ids) for ids in words} - {1}):
        runs = torch.tensor([ids for ids in words if len(ids) == size], device=device)
        steps.append(partial(forbid_sequences, runs=runs))
    if settings.min_new_tokens and settings.eos_token_id:
        least = settings.min_new_tokens
        steps.append(partial(forbid_end, ends=tensor(settings.eos_token_id), least=least))
    if settings.forced_bos_token_id is not None:
        first = only([settings.forced_bos_token_id], vocab, device)
        steps.append(partial(force_first, forced=first))
    if settings.forced_eos_token_id:
        steps.append(partial(force_last, forced=only(settings.forced_eos_token_id, vocab, device)))
    if settings.suppress_tokens:
        steps.append(partial(forbid_tokens, tokens=tensor(settings.suppress_tokens)))
    if settings.samples:
        steps += _narrowing(settings)
    return tuple(steps)


def _narrowing(settings: Settings) -> Iterable[Processor]:
    """Processors for sampling only."""
    if settings.temperature is not None and settings.temperature != 1.0:
        yield partial(apply_temperature, temperature=settings.temperature)
    if settings.top_k:
        yield partial(keep_top_k, count=settings.top_k)
    if settings.top_p is not None and settings.top_p < 1.0:
        yield partial(keep_top_p, top_p=settings.top_p)
    if settings.min_p is not None:
        yield partial(keep_min_p, min_p=settings.min_p)


def process(scores: Tensor, rows: LogitRows, steps: Iterable[Processor]) -> Tensor:
    """Apply the processors one after the other."""
    for step in steps:
        scores = step(scores, rows)
    return scores


def only(tokens: Sequence[int], vocab: int, device: torch.device | str) -> Tensor:
    """(V,) scores that allow these tokens only."""
    scores = torch.full((vocab,), NEVER)
    scores[list(tokens)] = 0.0
    return scores.to(device)


def _where(these: npt.NDArray[np.bool_], scores: Tensor) -> Tensor:
    return move(torch.from_numpy(np.flatnonzero(these)), scores.device)


def _among(tokens: Tensor, vocab: int) -> Tensor:
    """(B, n) tokens, -1 where there is none → (B, V) true at each row's tokens."""
    mask = torch.zeros(len(tokens), vocab + 1, dtype=torch.bool, device=tokens.device)
    spare = torch.where(tokens < 0, vocab, tokens)  # an extra column takes the -1s
    return mask.scatter(1, spare, True)[:, :vocab]


def penalise_repetition(scores: Tensor, rows: LogitRows, *, penalty: float) -> Tensor:
    """Lower the scores of all tokens of the text, however often they occur."""
    less = torch.where(scores < 0, scores * penalty, scores / penalty)
    return torch.where(_among(rows.history, scores.shape[1]), less, scores)


def forbid_repeated_ngrams(scores: Tensor, rows: LogitRows, *, size: int) -> Tensor:
    """No n-gram twice: forbid every token that followed the last size - 1 tokens before."""
    length = rows.history.shape[1]
    if length < size:
        return scores
    runs = rows.history.unfold(1, size, 1)  # (B, runs, size)
    last = rows.history[:, length + 1 - size :]  # (B, size - 1)
    same = (runs[..., :-1] == last[:, None]).all(-1) & (runs >= 0).all(-1)
    return forbid(
        scores, rows, banned=_among(torch.where(same, runs[..., -1], -1), scores.shape[1])
    )


def forbid(scores: Tensor, rows: LogitRows, *, banned: Tensor) -> Tensor:
    return scores.masked_fill(banned, NEVER)


def forbid_sequences(scores: Tensor, rows: LogitRows, *, runs: Tensor) -> Tensor:
    """Forbid the last token of a sequence (W, n) where the text ends with those before it."""
    before = runs.shape[1] - 1
    if rows.history.shape[1] < before:
        return scores
    same = (rows.history[:, None, -before:] == runs[:, :-1]).all(-1)  # (B, W)
    banned = _among(torch.where(same, runs[:, -1], -1), scores.shape[1])
    return forbid(scores, rows, banned=banned)


def forbid_tokens(scores: Tensor, rows: LogitRows, *, tokens: Tensor) -> Tensor:
    return scores.index_fill(1, tokens, NEVER)


def forbid_end(scores: Tensor, rows: LogitRows, *, ends: Tensor, least: int) -> Tensor:
    young = rows.generated < least
    if not young.any():
        return scores
    if young.all():
        return forbid_tokens(scores, rows, tokens=ends)
    never = torch.full((), NEVER, dtype=scores.dtype, device=scores.device)
    return scores.index_put((_where(young, scores)[:, None], ends), never)


def force_first(scores: Tensor, rows: LogitRows, *, forced: Tensor) -> Tensor:
    """Force this token where the text is only its start token."""
    return _force(scores, rows.lengths == 1, forced)


def force_last(scores: Tensor, rows: LogitRows, *, forced: Tensor) -> Tensor:
    return _force(scores, rows.remaining == 1, forced)


def _force(scores: Tensor, these: npt.NDArray[np.bool_], forced: Tensor) -> Tensor:
    if not these.any():
        return scores
    where = _where(these, scores)
    return scores.index_copy(0, where, forced.to(scores.dtype).expand(len(where), -1))


def apply_temperature(scores: Tensor, rows: LogitRows, *, temperature: float) -> Tensor:
    if temperature < SMALL_TEMPERATURE:  # the best score would become infinite: let it be 0
        scores = scores - scores.amax(-1, keepdim=True)
        temperature = max(temperature, SMALLEST_TEMPERATURE)
    return scores / temperature


def keep_top_k(scores: Tensor, rows: LogitRows, *, count: int) -> Tensor:
    """The best `count` tokens, and all that tie with the last of them."""
    least = largest(scores, min(count, scores.shape[1]))[0][:, -1:]
    return forbid(scores, rows, banned=scores < least)


def keep_top_p(scores: Tensor, rows: LogitRows, *, top_p: float) -> Tensor:
    """The fewest best tokens whose total probability reaches `top_p`; at least one."""
    ordered, order = scores.sort()  # the worst first
    spare = ordered.softmax(-1).cumsum(-1) <= 1 - top_p
    spare[:, -1] = False
    return forbid(scores, rows, banned=spare.scatter(1, order, spare))


def keep_min_p(scores: Tensor, rows: LogitRows, *, min_p: float) -> Tensor:
    """Tokens that are at least `min_p` times as likely as the likeliest."""
    probabilities = scores.softmax(-1)
    best = probabilities.amax(-1, keepdim=True)
    return forbid(scores, rows, banned=probabilities < min_p * best)


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(B, count) the best scores and their tokens, the best first.

    On a CPU a maximum is fast and sorting is slow. The best tokens are in the pieces with the best
    maxima, so only those pieces are sorted.
    """
    B, V = scores.shape
    pieces = V // PIECE
    if scores.device.type != "cpu" or pieces <= 4 * count:
        return _top(scores, count)
    body = scores[:, : pieces * PIECE].unflatten(1, (pieces, PIECE))
    best = _top(body.amax(-1), count)[1]  # (B, count) pieces
    tokens = (best[:, :, None] * PIECE + torch.arange(PIECE)).flatten(1)
    rest = torch.arange(pieces * PIECE, V).expand(B, -1)  # the tokens of an incomplete piece
    tokens = torch.cat([tokens, rest], 1)
    best_scores, where = _top(scores.gather(1, tokens), count)
    return best_scores, tokens.gather(1, where)


def _top(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if count == 1 and x.is_cuda and triton_works(x):
        from glassformer.kernels.argmax import argmax

        return argmax(x)
    best = x.max(-1, keepdim=True) if count == 1 else x.topk(count)
    return best[0], best[1]
