"""Pairs of texts for next sentence: half of the second texts follow the first, half do not."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.data.chance import below, mix, uniform
from glassformer.data.packing import Numbers, Samples
from glassformer.data.store import Column
from glassformer.errors import ConfigError

FOLLOWS, RANDOM, ALONE = 0, 1, -100


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

    With `order` the two texts are swapped instead. Of `short` pairs, a share, the sentences end
    earlier, at a length by chance: two of them at least. A sentence that is a whole document has
    no second text. One that is too long to stand beside its neighbour is in no pair.
    """
    if length < 2:
        raise ConfigError("objective.length: too short for a pair of texts: write a longer one")
    here = np.arange(len(document))
    begin = np.searchsorted(document, document, "left").astype(np.int64)
    last = np.searchsorted(document, document, "right").astype(np.int64)  # behind the last one
    coin, split, kind, place = (mix(seed, epoch, each, here) for each in range(4))
    cut_short = uniform(seed, epoch, 4, here) < short
    limit = np.where(cut_short, below(length, seed, epoch, 5, here), length)
    most = _fitting(starts, here, length)
    end = np.clip(_fitting(starts, here, limit), np.minimum(here + 2, most), last)
    cut = here + 1 + _below(split, end - here - 1)
    inside = last - begin - (end - here)  # sentences of its document that are not in the pair
    outside = len(document) - (last - begin)  # of other documents
    true = (coin % 2 == 0) | ((inside + outside == 0) & (not order))  # is there another one?
    at = _walk(end - here >= 2, np.where(true | order, end, cut))
    true, cut_at, end_at = true[at], starts[cut[at]], starts[end[at]]
    first = np.stack([starts[at], cut_at - starts[at]], 1)
    second = np.stack([cut_at, end_at - cut_at], 1)
    if order:
        swap = ~true[:, None]
        first, second = np.where(swap, second, first), np.where(swap, first, second)
    else:
        near = (inside > 0) & ((kind % 2 == 0) | (outside == 0))
        other = np.where(
            near,
            _beside(begin + _below(place, inside), here, end),
            _beside(_below(place, outside), begin, last),
        )[at]
        other = np.minimum(other, len(here) - 1)  # where there is no other, the pair is true
        # Up to the end of its document; one from before the first text, up to that.
        behind = np.where(near[at] & (other < at), at, last[other])
        stop = np.maximum(_fitting(starts, other, limit[at] - first[:, 1]), other + 1)
        size = starts[np.minimum(stop, behind)] - starts[other]
        another = np.stack([starts[other], np.minimum(size, length - first[:, 1])], 1)
        second = np.where(true[:, None], second, another)
    return _with_lone(
        Samples(first, second, np.where(true, FOLLOWS, RANDOM)), starts, document, length
    )


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
