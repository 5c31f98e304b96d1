"""Deduplication: documents and lines that were read before are skipped."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

NGRAM = 8  # words that are compared at once
MIN_KNOWN = 2  # known n-grams that make a line a copy: a single one may be a common phrase
_WORD = re.compile(r"\w+")


class Deduplicator:
    """Remembers texts by a sample of their n-grams of words, and skips what it has seen.

    An n-gram starts at each word whose own hash selects it, one in eight, so line ends, quotes and
    dashes do not matter. A document is a copy, and skipped, if most of its n-grams are known;
    otherwise only its copied lines are. About 60 bytes are kept for every eight words.
    """

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.documents = self.lines = self.characters = 0  # that were skipped

    def remember(self, text: str) -> None:
        """Count a text as seen."""
        self.known.update(mark for _, mark in marks(text.split("\n")))

    def fresh(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the texts without what was seen before."""
        for text in texts:
            if remaining := self._fresh(text):
                yield remaining

    def _fresh(self, text: str) -> str:
        lines = text.split("\n")
        ngrams = marks(lines)
        known = Counter(line for line, mark in ngrams if mark in self.known)
        if 2 * known.total() > len(ngrams):
            self.documents += 1
            self.characters += len(text)
            return ""
        self.known.update(mark for _, mark in ngrams)
        totals = Counter(line for line, _ in ngrams)
        copied = {n for n, count in known.items() if count >= MIN_KNOWN and 2 * count > totals[n]}
        self.lines += len(copied)
        self.characters += sum(len(lines[line]) + 1 for line in copied)
        return "\n".join(each for line, each in enumerate(lines) if line not in copied)

    def __str__(self) -> str:
        return (
            f"{self.documents:,} copies of documents and {self.lines:,} of lines, "
            f"{self.characters:,} characters, left out"
        )


def marks(lines: list[str]) -> list[tuple[int, int]]:
    """The n-grams that are compared: the line that each starts in, and its hash."""
    words: list[str] = []
    line_numbers: list[int] = []
    for number, line in enumerate(lines):
        matches = _WORD.findall(line.casefold())
        words += matches
        line_numbers += [number] * len(matches)
    starts = [i for i in range(len(words) - NGRAM + 1) if _starts_ngram(words[i])]
    if not starts:  # a short text is compared as a whole
        return [(0, _hash(" ".join(words)))]
    return [(line_numbers[i], _hash(" ".join(words[i : i + NGRAM]))) for i in starts]


@lru_cache(1 << 16)
def _starts_ngram(word: str) -> bool:
    return _hash(word) % NGRAM == 0


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
