"""Pairs of texts for next-sentence prediction: half of the second texts follow the first."""

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
TRIES = 6  # to find a sentence that fits


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
    """Neighbouring sentences of a document, at most `length` tokens, cut into two at random.

        at      cut        end
        │ first │  second  │ …      follows
        │ first │ …     │ another │ random: from elsewhere in the same document or, as often, from
                                    another one; the next pair then begins at cut

    With `order` the two texts are swapped instead (sentence order prediction). A share `short` of
    the pairs is shorter, at random, but has at least two sentences. A document of one sentence has
    no second text. A sentence that is too long to fit beside its neighbour is in no pair.
    """
    if length < 2:
        raise ConfigError("objective.length: too short for a pair of texts: write a longer one")
    index = np.arange(len(document))
    begin = np.searchsorted(document, document, "left").astype(np.int64)
    last = np.searchsorted(document, document, "right").astype(np.int64)  # after the last one
    label_draw, cut_draw = mix(seed, epoch, 0, index), mix(seed, epoch, 1, index)
    cut_short = uniform(seed, epoch, 4, index) < short
    limit = np.where(cut_short, below(length, seed, epoch, 5, index), length)
    most = _end_within(starts, index, length)
    end = np.clip(_end_within(starts, index, limit), np.minimum(index + 2, most), last)
    cut = index + 1 + _below(cut_draw, end - index - 1)
    follows = label_draw % 2 == 0
    if not order:
        room = length - (starts[cut] - starts[:-1])
        other = _others(starts, begin, last, end, room, seed, epoch)
        follows |= other < 0  # nothing else fits
    at = _pair_starts(end - index >= 2, np.where(follows | order, end, cut))
    follows, cut_at, end_at = follows[at], starts[cut[at]], starts[end[at]]
    first = np.stack([starts[at], cut_at - starts[at]], 1)
    second = np.stack([cut_at, end_at - cut_at], 1)
    if order:
        swap = ~follows[:, None]
        first, second = np.where(swap, second, first), np.where(swap, first, second)
    else:
        other = other[at]
        # Up to the end of its document or, from before the first text, up to that text.
        before = (document[other] == document[at]) & (other < at)
        stop = np.maximum(_end_within(starts, other, limit[at] - first[:, 1]), other + 1)
        size = starts[np.minimum(stop, np.where(before, at, last[other]))] - starts[other]
        another = np.stack([starts[other], size], 1)
        second = np.where(follows[:, None], second, another)
    return _with_single_sentences(
        Samples(first, second, np.where(follows, FOLLOWS, RANDOM)), starts, document, length
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
    """For each sentence one that fits as the start of a random second text: from elsewhere in its
    document or, as often, from another one; -1 if none was found.

    A document of one sentence never has a true second text: if it could be a random one, its
    appearance alone would give the label away.
    """
    index, sizes = np.arange(len(begin)), np.diff(starts)
    inside = last - begin - (end - index)  # sentences of its document outside the pair
    paired = np.flatnonzero(last - begin > 1)
    own_begin, own_end = np.searchsorted(paired, begin), np.searchsorted(paired, last)
    outside = len(paired) - (own_end - own_begin)  # those of other documents
    others = np.full(len(index), -1)
    for number in range(TRIES):
        at = np.flatnonzero((others < 0) & (end - index >= 2) & (inside + outside > 0))
        try_near = (mix(seed, epoch, 2, at) + np.uint64(number)) % 2 == 0
        near = (inside[at] > 0) & (try_near | (outside[at] == 0))
        draw = mix(seed, epoch, 3, at, number)
        far = _skip_range(_below(draw, outside[at]), own_begin[at], own_end[at])
        far = paired[np.minimum(far, len(paired) - 1)]  # unused where there is none
        candidate = np.where(
            near, _skip_range(begin[at] + _below(draw, inside[at]), at, end[at]), far
        )
        fits = sizes[candidate] <= room[at]
        others[at[fits]] = candidate[fits]
    return others


def _with_single_sentences(
    pairs: Samples, starts: Numbers, document: Numbers, length: int
) -> Samples:
    """Append the documents of one sentence, which nothing can follow."""
    assert pairs.second is not None and pairs.follows is not None  # noqa: S101
    if len(pairs) == 0:  # without pairs there is nothing to train on
        return pairs
    single = np.flatnonzero(np.bincount(document)[document] == 1)
    sizes = np.minimum(starts[single + 1] - starts[single], length)
    first = np.stack([starts[single], sizes], 1)
    second = np.stack([starts[single] + sizes, np.zeros_like(sizes)], 1)
    return Samples(
        np.concatenate([pairs.first, first]),
        np.concatenate([pairs.second, second]),
        np.concatenate([pairs.follows, np.full(len(single), ALONE)]),
    )


def _end_within(starts: Numbers, at: Numbers, size: Any) -> Numbers:
    """The end of the sentences from `at` that fit into `size` tokens."""
    ends: Numbers = np.searchsorted(starts, starts[at] + size, "right") - 1
    return ends


def _below(bits: npt.NDArray[np.uint64], limit: npt.NDArray[Any]) -> Numbers:
    numbers: Numbers = (bits % np.maximum(limit, 1).astype(np.uint64)).astype(np.int64)
    return numbers


def _skip_range(position: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Map positions that were counted without [begin, end) to positions counted with it."""
    positions: Numbers = position + np.where(position >= begin, end - begin, 0)
    return positions


def _pair_starts(pairs: npt.NDArray[np.bool_], next_start: Numbers) -> Numbers:
    """Where pairs begin: after each, the search resumes at its `next_start`."""
    starts, at = array("q"), 0
    is_pair, next_starts = pairs.data, next_start.data
    while at < len(is_pair):
        if is_pair[at]:
            starts.append(at)
            at = next_starts[at]
        else:
            at += 1
    return np.asarray(starts, dtype=np.int64)
