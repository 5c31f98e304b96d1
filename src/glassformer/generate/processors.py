"""What may be written next: each setting is a function from scores to scores.

They take scores (B, V) and what the rows know of their texts, and give new scores: nothing is
changed in place. A forbidden token has the score -∞. `processors` has them in the order that
transformers applies them in.
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

from glassformer.generate.settings import Settings
from glassformer.model.sequences import move

NEVER = -math.inf
Numbers = npt.NDArray[np.int64]
PIECE = 64  # tokens


@dataclass(frozen=True, eq=False)
class LogitRows:
    """The texts behind the rows of scores. Their numbers are plain: no device is asked for them.

    history    ·  ·  7  3      right-aligned, -1 before the beginning
               5  2  9  4
    """

    history: Tensor  # (B, S); empty where no setting looks back
    lengths: Numbers  # (B,) of the whole texts
    made: Numbers  # (B,) how many tokens of them were written
    left: Numbers  # (B,) and how many more may be

    @classmethod
    def of(
        cls,
        texts: Sequence[Sequence[int]],
        made: Sequence[int],
        left: Sequence[int],
        device: torch.device | str,
        *,
        looks_back: bool = True,
    ) -> LogitRows:
        lengths = [len(each) for each in texts]
        longest = max(lengths, default=0) if looks_back else 0
        filled = [[-1] * (longest - len(each)) + list(each) for each in texts if looks_back]
        history = torch.tensor(filled, dtype=torch.long).reshape(len(texts), longest)
        return cls(history.to(device), np.array(lengths), np.array(made), np.array(left))

    def add(self, tokens: Tensor) -> LogitRows:
        """One more token each."""
        history = self.history
        if history.shape[1]:
            history = torch.cat([history, tokens[:, None]], 1)
        return LogitRows(history, self.lengths + 1, self.made + 1, self.left - 1)

    def select(self, index: Numbers) -> LogitRows:
        history = self.history[torch.from_numpy(index).to(self.history.device)]
        return LogitRows(history, self.lengths[index], self.made[index], self.left[index])


Processor = Callable[[Tensor, LogitRows], Tensor]


def processors(settings: Settings, vocab: int, device: torch.device | str) -> tuple[Processor, ...]:
    """The settings that change scores, in their order; none for plain greedy writing."""
    found: list[Processor] = []

    def numbers(tokens: Sequence[int]) -> Tensor:
        return torch.tensor(tokens, dtype=torch.long, device=device)

    if settings.repetition_penalty != 1.0:
        found.append(partial(penalise_repetition, penalty=settings.repetition_penalty))
    if settings.no_repeat_ngram_size:
        found.append(partial(forbid_repeated_runs, size=settings.no_repeat_ngram_size))
    words = [
        each for each in settings.bad_words_ids if each not in {(e,) for e in settings.eos_token_id}
    ]
    single = [each[0] for each in words if len(each) == 1]
    if single:
        found.append(partial(forbid_tokens, tokens=numbers(single)))
    for size in sorted({len(each) for each in words} - {1}):
        runs = torch.tensor([each for each in words if len(each) == size], device=device)
        found.append(partial(forbid_runs, runs=runs))
    if settings.min_new_tokens and settings.eos_token_id:
        least = settings.min_new_tokens
        found.append(partial(forbid_end, ends=numbers(settings.eos_token_id), least=least))
    if settings.forced_bos_token_id is not None:
        first = only([settings.forced_bos_token_id], vocab, device)
        found.append(partial(force_first, forced=first))
    if settings.forced_eos_token_id:
        found.append(partial(force_last, forced=only(settings.forced_eos_token_id, vocab, device)))
    if settings.suppress_tokens:
        found.append(partial(forbid_tokens, tokens=numbers(settings.suppress_tokens)))
    if settings.samples:
        found += _narrowing(settings)
    return tuple(found)


def _narrowing(settings: Settings) -> Iterable[Processor]:
    """What is for sampling only."""
    if settings.temperature is not None and settings.temperature != 1.0:
        yield partial(heat, temperature=settings.temperature)
    if settings.top_k:
        yield partial(keep_best, count=settings.top_k)
    if settings.top_p is not None and settings.top_p < 1.0:
        yield partial(keep_mass, mass=settings.top_p)
    if settings.min_p is not None:
        yield partial(keep_near_best, share=settings.min_p)


def process(scores: Tensor, rows: LogitRows, steps: Iterable[Processor]) -> Tensor:
    for step in steps:
        scores = step(scores, rows)
    return scores


def only(tokens: Sequence[int], vocab: int, device: torch.device | str) -> Tensor:
    """(V,) the scores where nothing but these tokens can come."""
    found = torch.full((vocab,), NEVER)
    found[list(tokens)] = 0.0
    return found.to(device)


def _where(these: npt.NDArray[np.bool_], scores: Tensor) -> Tensor:
    return move(torch.from_numpy(np.flatnonzero(these)), scores.device)


def _among(tokens: Tensor, vocab: int) -> Tensor:
    """(B, n) tokens, -1 where there is none → (B, V) true at each row's tokens."""
    found = torch.zeros(len(tokens), vocab + 1, dtype=torch.bool, device=tokens.device)
    spare = torch.where(tokens < 0, vocab, tokens)  # one column more takes what is none
    return found.scatter(1, spare, True)[:, :vocab]


def penalise_repetition(scores: Tensor, rows: LogitRows, *, penalty: float) -> Tensor:
    """What was there already is worth less, however often it was there."""
    less = torch.where(scores < 0, scores * penalty, scores / penalty)
    return torch.where(_among(rows.history, scores.shape[1]), less, scores)


def forbid_repeated_runs(scores: Tensor, rows: LogitRows, *, size: int) -> Tensor:
    """No run of `size` tokens twice: what followed the last size - 1 tokens once cannot again."""
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


def forbid_runs(scores: Tensor, rows: LogitRows, *, runs: Tensor) -> Tensor:
    """The last token of each run (W, n), where the text ends with the tokens before it."""
    before = runs.shape[1] - 1
    if rows.history.shape[1] < before:
        return scores
    same = (rows.history[:, None, -before:] == runs[:, :-1]).all(-1)  # (B, W)
    banned = _among(torch.where(same, runs[:, -1], -1), scores.shape[1])
    return forbid(scores, rows, banned=banned)


def forbid_tokens(scores: Tensor, rows: LogitRows, *, tokens: Tensor) -> Tensor:
    return scores.index_fill(1, tokens, NEVER)


def forbid_end(scores: Tensor, rows: LogitRows, *, ends: Tensor, least: int) -> Tensor:
    young = rows.made < least
    if not young.any():
        return scores
    never = torch.full((), NEVER, dtype=scores.dtype, device=scores.device)
    return scores.index_put((_where(young, scores)[:, None], ends), never)


def force_first(scores: Tensor, rows: LogitRows, *, forced: Tensor) -> Tensor:
    """Where the text is one token long, the start, it goes on with this one."""
    return _force(scores, rows.lengths == 1, forced)


def force_last(scores: Tensor, rows: LogitRows, *, forced: Tensor) -> Tensor:
    return _force(scores, rows.left == 1, forced)


def _force(scores: Tensor, these: npt.NDArray[np.bool_], forced: Tensor) -> Tensor:
    if not these.any():
        return scores
    where = _where(these, scores)
    return scores.index_copy(0, where, forced.to(scores.dtype).expand(len(where), -1))


def heat(scores: Tensor, rows: LogitRows, *, temperature: float) -> Tensor:
    return scores / temperature


def keep_best(scores: Tensor, rows: LogitRows, *, count: int) -> Tensor:
    """The best `count`, and all that are as good as the last of them."""
    least = largest(scores, min(count, scores.shape[1]))[0][:, -1:]
    return forbid(scores, rows, banned=scores < least)


def keep_mass(scores: Tensor, rows: LogitRows, *, mass: float) -> Tensor:
    """The fewest best tokens whose chances sum to `mass`; the best always."""
    ordered, order = scores.sort()  # the worst first
    spare = ordered.softmax(-1).cumsum(-1) <= 1 - mass
    spare[:, -1] = False
    return forbid(scores, rows, banned=spare.scatter(1, order, spare))


def keep_near_best(scores: Tensor, rows: LogitRows, *, share: float) -> Tensor:
    """At least `share` times as likely as the likeliest."""
    chances = scores.softmax(-1)
    best = chances.amax(-1, keepdim=True)
    return forbid(scores, rows, banned=chances < share * best)


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(B, count) the best scores and their tokens, the best first.

    A CPU sorts slowly and finds maxima fast: the best tokens are in the pieces with the best
    maxima, so only those pieces are sorted.
    """
    B, V = scores.shape
    pieces = V // PIECE
    if scores.device.type != "cpu" or pieces <= 4 * count:
        return _top(scores, count)
    body = scores[:, : pieces * PIECE].unflatten(1, (pieces, PIECE))
    best = _top(body.amax(-1), count)[1]  # (B, count) pieces
    tokens = (best[:, :, None] * PIECE + torch.arange(PIECE)).flatten(1)
    rest = torch.arange(pieces * PIECE, V).expand(B, -1)  # what makes no whole piece
    tokens = torch.cat([tokens, rest], 1)
    found, where = _top(scores.gather(1, tokens), count)
    return found, tokens.gather(1, where)


def _top(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    found = x.max(-1, keepdim=True) if count == 1 else x.topk(count)
    return found[0], found[1]
