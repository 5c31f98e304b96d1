"""What was read before is not read again: whole documents and single lines that come twice."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

RUN = 8  # words that are compared at once
SOME = 2  # so many runs of a line must be known: one alone may be a saying
_WORD = re.compile(r"\w+")


class Deduplicator:
    """Remembers texts by some of their runs of words, and leaves out what it remembers.

    A run begins at each word whose own hash says so, one in eight: other line ends, quotes or
    dashes make no other text. If most runs of a document are known it is a copy, and left out
    whole; else only its lines that are. Some 60 bytes are kept of every eight words.
    """

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.documents = self.lines = self.characters = 0  # that were left out

    def remember(self, text: str) -> None:
        self.known.update(mark for _, mark in marks(text.split("\n")))

    def fresh(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            if left := self._fresh(text):
                yield left

    def _fresh(self, text: str) -> str:
        lines = text.split("\n")
        found = marks(lines)
        old = Counter(line for line, mark in found if mark in self.known)
        if 2 * old.total() > len(found):
            self.documents += 1
            self.characters += len(text)
            return ""
        self.known.update(mark for _, mark in found)
        runs = Counter(line for line, _ in found)
        copied = {n for n, count in old.items() if count >= SOME and 2 * count > runs[n]}
        self.lines += len(copied)
        self.characters += sum(len(lines[line]) + 1 for line in copied)
        return "\n".join(each for line, each in enumerate(lines) if line not in copied)

    def __str__(self) -> str:
        return (
            f"{self.documents:,} copies of documents and {self.lines:,} of lines, "
            f"{self.characters:,} characters, left out"
        )


def marks(lines: list[str]) -> list[tuple[int, int]]:
    """Of the runs of words that are compared: the line that each begins in, and its hash."""
    words: list[str] = []
    places: list[int] = []
    for number, line in enumerate(lines):
        found = _WORD.findall(line.casefold())
        words += found
        places += [number] * len(found)
    starts = [i for i in range(len(words) - RUN + 1) if _begins(words[i])]
    if not starts:  # a short text is compared as a whole
        return [(0, _hash(" ".join(words)))]
    return [(places[i], _hash(" ".join(words[i : i + RUN]))) for i in starts]


@lru_cache(1 << 16)
def _begins(word: str) -> bool:
    return _hash(word) % RUN == 0


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
