"""Pairs of texts for next sentence: half of the second texts follow the first, half do not."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.data.hashing import below, mix, uniform
from glassformer.data.packing import Numbers, Samples
from glassformer.data.store import Column
from glassformer.errors import ConfigError

FOLLOWS, RANDOM, ALONE = 0, 1, -100
TRIES = 6  # to find a sentence that there is room for


def sentence_starts(tokens: Column, sentences: Column) -> tuple[Numbers, Numbers]:
    """Where each sentence begins in the long row (and the end of the last), and its document."""
    counts = np.diff(sentences.offsets)
    document = np.repeat(np.arange(len(counts)), counts)
    starts = tokens.offsets[document] + sentences.row.astype(np.int64)
    return np.append(starts, len(tokens)), document


def sentence_pairs(
    starts: Numbers,
    document: Numbers,
    length: int,
    order: bool,
    short: float,
    *,
    seed: int,
    epoch: int,
) -> Samples:
    """Neighbouring sentences of a document, at most `length` tokens, cut into two texts by chance.

        at      cut        end
        │ first │  second  │ …      follows
        │ first │ …     │ another │ random: from elsewhere in the same document or, as often, from
                                    another one; the next pair then begins at cut

    With `order` the two texts are swapped instead. The share `short` of the pairs is shorter, by
    chance, but has two sentences at least. A sentence that is a whole document has no second text.
    One that is too long to stand beside its neighbour is in no pair.
    """
    if length < 2:
        raise ConfigError("objective.length: too short for a pair of texts: write a longer one")
    here = np.arange(len(document))
    begin = np.searchsorted(document, document, "left").astype(np.int64)
    last = np.searchsorted(document, document, "right").astype(np.int64)  # behind the last one
    coin, split = mix(seed, epoch, 0, here), mix(seed, epoch, 1, here)
    cut_short = uniform(seed, epoch, 4, here) < short
    limit = np.where(cut_short, below(length, seed, epoch, 5, here), length)
    most = _fitting(starts, here, length)
    end = np.clip(_fitting(starts, here, limit), np.minimum(here + 2, most), last)
    cut = here + 1 + _below(split, end - here - 1)
    true = coin % 2 == 0
    if not order:
        room = length - (starts[cut] - starts[:-1])
        other = _others(starts, begin, last, end, room, seed, epoch)
        true |= other < 0  # there is no other
    at = _walk(end - here >= 2, np.where(true | order, end, cut))
    true, cut_at, end_at = true[at], starts[cut[at]], starts[end[at]]
    first = np.stack([starts[at], cut_at - starts[at]], 1)
    second = np.stack([cut_at, end_at - cut_at], 1)
    if order:
        swap = ~true[:, None]
        first, second = np.where(swap, second, first), np.where(swap, first, second)
    else:
        other = other[at]
        # Up to the end of its document; one from before the first text, up to that.
        before = (document[other] == document[at]) & (other < at)
        stop = np.maximum(_fitting(starts, other, limit[at] - first[:, 1]), other + 1)
        size = starts[np.minimum(stop, np.where(before, at, last[other]))] - starts[other]
        another = np.stack([starts[other], size], 1)
        second = np.where(true[:, None], second, another)
    return _with_lone(
        Samples(first, second, np.where(true, FOLLOWS, RANDOM)), starts, document, length
    )


def _others(
    starts: Numbers,
    begin: Numbers,
    last: Numbers,
    end: Numbers,
    room: Numbers,
    seed: int,
    epoch: int,
) -> Numbers:
    """For each sentence one that a false second text may begin with, whole: from elsewhere in its
    document or, as often, from another one. -1 where nothing was found that there is room for.

    A document of one sentence has no true second text: if it could be a false one, its look alone
    would tell.
    """
    here, sizes = np.arange(len(begin)), np.diff(starts)
    inside = last - begin - (end - here)  # sentences of its document that are not in the pair
    paired = np.flatnonzero(last - begin > 1)
    own, behind = np.searchsorted(paired, begin), np.searchsorted(paired, last)
    outside = len(paired) - (behind - own)  # those of other documents
    found = np.full(len(here), -1)
    for number in range(TRIES):
        at = np.flatnonzero((found < 0) & (end - here >= 2) & (inside + outside > 0))
        turn = (mix(seed, epoch, 2, at) + np.uint64(number)) % 2 == 0
        near = (inside[at] > 0) & (turn | (outside[at] == 0))
        place = mix(seed, epoch, 3, at, number)
        far = _beside(_below(place, outside[at]), own[at], behind[at])
        far = paired[np.minimum(far, len(paired) - 1)]  # where there is none, near is taken
        there = np.where(near, _beside(begin[at] + _below(place, inside[at]), at, end[at]), far)
        fits = sizes[there] <= room[at]
        found[at[fits]] = there[fits]
    return found


def _with_lone(pairs: Samples, starts: Numbers, document: Numbers, length: int) -> Samples:
    """And documents of one sentence, behind them: there is nothing that could follow."""
    assert pairs.second is not None and pairs.follows is not None  # noqa: S101
    if len(pairs) == 0:  # then there is nothing to be learnt about pairs
        return pairs
    lone = np.flatnonzero(np.bincount(document)[document] == 1)
    sizes = np.minimum(starts[lone + 1] - starts[lone], length)
    first = np.stack([starts[lone], sizes], 1)
    second = np.stack([starts[lone] + sizes, np.zeros_like(sizes)], 1)
    return Samples(
        np.concatenate([pairs.first, first]),
        np.concatenate([pairs.second, second]),
        np.concatenate([pairs.follows, np.full(len(lone), ALONE)]),
    )


def _fitting(starts: Numbers, at: Numbers, size: Any) -> Numbers:
    """Behind the last sentence that ends within so many tokens."""
    found: Numbers = np.searchsorted(starts, starts[at] + size, "right") - 1
    return found


def _below(chance: npt.NDArray[np.uint64], limit: npt.NDArray[Any]) -> Numbers:
    found: Numbers = (chance % np.maximum(limit, 1).astype(np.uint64)).astype(np.int64)
    return found


def _beside(place: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Places counted without those in [begin, end)."""
    found: Numbers = place + np.where(place >= begin, end - begin, 0)
    return found


def _walk(pairs: npt.NDArray[np.bool_], then: Numbers) -> Numbers:
    """Where pairs begin: each says where the next one may."""
    found, at = array("q"), 0
    begins, ends = pairs.data, then.data
    while at < len(begins):
        if begins[at]:
            found.append(at)
            at = ends[at]
        else:
            at += 1
    return np.asarray(found, dtype=np.int64)
