"""What is in a data set: lengths, unknown tokens, copies. A few bytes are kept of each document."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glassformer.data.label_alignment import Document, texts_of
from glassformer.data.store import OTHERS
from glassformer.text import Tokenizer

EXAMPLES = 10


class CorpusStats:
    """Documents are added one by one, as ids by column; then `facts` tells."""

    def __init__(self, unknown: int | None, length: int | None = None) -> None:
        self.unknown, self.length = unknown, length
        self.documents = self.characters = self.bytes = self.strange = 0
        self.lengths: dict[str, Counter[int]] = {}  # column → how many documents are how long
        self.seen = array("Q")  # 64 bits of each document's hash
        self.examples: Counter[str] = Counter()

    def add(self, ids: Mapping[str, Sequence[int]], text: Document | None = None) -> None:
        self.documents += 1
        parts: list[bytes] = []
        for name, each in ids.items():
            self.lengths.setdefault(name, Counter())[len(each)] += 1
            if name not in OTHERS:
                row = np.asarray(each, dtype="<u4")
                self.strange += int(np.count_nonzero(row == self.unknown))
                parts.append(row.tobytes())
        if text is not None:  # different texts may have the same ids
            sides = texts_of(text)
            self.characters += sum(map(len, sides))
            parts = [side.encode("utf-8", "replace") for side in sides]
            self.bytes += sum(map(len, parts))
        self._remember(parts)

    def _remember(self, parts: list[bytes]) -> None:
        found = hashlib.blake2b(digest_size=8)
        for part in parts:
            found.update(len(part).to_bytes(8, "little") + part)
        self.seen.append(int.from_bytes(found.digest(), "little"))

    def show_unknown(self, text: Document, tokenizer: Tokenizer) -> None:
        """Keep what the tokenizer does not know of a text, until there are enough examples."""
        for part in texts_of(text):
            found = tokenizer.encode(part)
            for i, (start, end) in zip(found.ids, found.spans, strict=True):
                if i == self.unknown and end > start:
                    self.examples[part[start:end]] += 1

    def facts(self) -> dict[str, Any]:
        tokens = sum(_sum(each) for name, each in self.lengths.items() if name not in OTHERS)
        copies = self.documents - len(np.unique(np.asarray(self.seen, dtype=np.uint64)))
        found: dict[str, Any] = {"documents": self.documents, "tokens": tokens}
        if self.characters:
            found |= {"characters": self.characters, "bytes": self.bytes}
        found["lengths"] = {name: spread(each) for name, each in self.lengths.items()}
        if self.unknown is not None:
            found["unknown"] = self.strange
            found["unknown_examples"] = [word for word, _ in self.examples.most_common(EXAMPLES)]
        found["copies"] = copies
        if self.length is not None:
            found["length"] = self.length
            columns = self.lengths.items()
            found["cut"] = {n: _beyond(x, self.length) for n, x in columns if n not in OTHERS}
        return found


def spread(lengths: Counter[int]) -> dict[str, Any]:
    """From the shortest to the longest."""
    sizes = np.array(sorted(lengths), dtype=np.int64)
    below = np.array([lengths[size] for size in sizes.tolist()]).cumsum()

    def at(share: float) -> int:
        """The smallest size that at least this share of all do not exceed."""
        return int(sizes[np.searchsorted(below, share * below[-1])])

    return {
        "min": int(sizes[0]),
        "median": at(0.5),
        "mean": round(_sum(lengths) / int(below[-1]), 2),
        "95 %": at(0.95),
        "max": int(sizes[-1]),
        "histogram": histogram(lengths),
    }


def histogram(lengths: Counter[int]) -> list[tuple[int, int, int]]:
    """(from, to, how many): 0, 1, 2–3, 4–7, 8–15 …"""
    counts: Counter[int] = Counter()
    for size, count in lengths.items():
        counts[size.bit_length()] += count
    steps = range(min(counts), max(counts) + 1)
    return [(1 << step >> 1, max(0, (1 << step) - 1), counts[step]) for step in steps]


def _sum(lengths: Counter[int]) -> int:
    return sum(size * count for size, count in lengths.items())


def _beyond(lengths: Counter[int], most: int) -> dict[str, int]:
    """How many documents are longer, what is behind their first `most` tokens, and how many
    windows of `most` hold everything."""
    longer = {size: count for size, count in lengths.items() if size > most}
    return {
        "documents": sum(longer.values()),
        "tokens": sum((size - most) * count for size, count in longer.items()),
        "windows": sum(-(-size // most) * count for size, count in lengths.items()),
    }
