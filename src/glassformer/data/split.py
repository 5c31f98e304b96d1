"""What is held out of the training text. Each text decides for itself, by its hash: another order,
another run or more text around it moves nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

Pair = tuple[str, str]


def is_held(text: str, share: float) -> bool:
    """True for this share of all texts."""
    return in_range(text, 0.0, share)


def in_range(text: str, low: float, high: float) -> bool:
    """Is its hash between these shares of all hashes?"""
    return low * 2**64 <= int.from_bytes(_hash(text)) < high * 2**64


def split_pairs(
    read: Callable[[], Iterable[Pair]],
    share: float,
    *,
    held: bool,
    tell: Callable[[int], None] = lambda left_out: None,
) -> Iterator[Pair]:
    """The held-out pairs, or those to train on: neither text of any held-out pair is among them.

    The source decides, so that all translations of it stay together. A pair to train on whose
    target is also a held-out one's is left out; `tell` gets their number at the end. Case and
    spaces make no other text.
    """
    if held:
        yield from (pair for pair in read() if is_held(plain(pair[0]), share))
        return
    known = {_hash(plain(target)) for source, target in read() if is_held(plain(source), share)}
    left_out = 0
    for source, target in read():
        if is_held(plain(source), share):
            continue
        if _hash(plain(target)) in known:
            left_out += 1
        else:
            yield source, target
    tell(left_out)


def plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
