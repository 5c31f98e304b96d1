"""The validation split of the training text. The hash of each text decides its split, so another
order, another run or more text does not move it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

Pair = tuple[str, str]


def is_held(text: str, share: float) -> bool:
    """Whether a text is held out; true for this share of all texts."""
    return in_range(text, 0.0, share)


def in_range(text: str, low: float, high: float) -> bool:
    """Whether its hash lies between these fractions of all hashes."""
    return low * 2**64 <= int.from_bytes(_hash(text)) < high * 2**64


def split_pairs(
    read: Callable[[], Iterable[Pair]],
    share: float,
    *,
    held: bool,
    report: Callable[[int], None] = lambda skipped: None,
) -> Iterator[Pair]:
    """The held-out pairs, or those to train on: neither text of any held-out pair is among them.

    The source decides, so that all its translations stay together. A training pair whose target is
    also that of a held-out pair is skipped; `report` is called with their number at the end. Case
    and spaces are ignored.
    """
    if held:
        yield from (pair for pair in read() if is_held(plain(pair[0]), share))
        return
    known = {_hash(plain(target)) for source, target in read() if is_held(plain(source), share)}
    skipped = 0
    for source, target in read():
        if is_held(plain(source), share):
            continue
        if _hash(plain(target)) in known:
            skipped += 1
        else:
            yield source, target
    report(skipped)


def plain(text: str) -> str:
    """The text in lower case, with single spaces."""
    return " ".join(text.split()).casefold()


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
