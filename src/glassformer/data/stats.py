"""Statistics of a dataset: lengths, unknown tokens, copies. A few bytes are kept per document."""

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
    """Documents are added one by one, as ids by column; `facts` returns the statistics."""

    def __init__(self, unknown: int | None, length: int | None = None) -> None:
        self.unknown, self.length = unknown, length
        self.documents = self.characters = self.bytes = self.unknown_count = 0
        self.lengths: dict[str, Counter[int]] = {}  # column → length → documents
        self.seen = array("Q")  # 64 bits of each document's hash
        self.examples: Counter[str] = Counter()

    def add(self, ids: Mapping[str, Sequence[int]], text: Document | None = None) -> None:
        """Count a document; with its text, characters and bytes are counted too."""
        self.documents += 1
        parts: list[bytes] = []
        for name, each in ids.items():
            self.lengths.setdefault(name, Counter())[len(each)] += 1
            if name not in OTHERS:
                row = np.asarray(each, dtype="<u4")
                self.unknown_count += int(np.count_nonzero(row == self.unknown))
                parts.append(row.tobytes())
        if text is not None:  # different texts may have the same ids
            sides = texts_of(text)
            self.characters += sum(map(len, sides))
            parts = [side.encode("utf-8", "replace") for side in sides]
            self.bytes += sum(map(len, parts))
        self._add_hash(parts)

    def _add_hash(self, parts: list[bytes]) -> None:
        digest = hashlib.blake2b(digest_size=8)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part)
        self.seen.append(int.from_bytes(digest.digest(), "little"))

    def show_unknown(self, text: Document, tokenizer: Tokenizer) -> None:
        """Count what the tokenizer does not know of a text, as examples."""
        for part in texts_of(text):
            encoding = tokenizer.encode(part)
            for i, (start, end) in zip(encoding.ids, encoding.spans, strict=True):
                if i == self.unknown and end > start:
                    self.examples[part[start:end]] += 1

    def facts(self) -> dict[str, Any]:
        """All statistics, by name."""
        tokens = sum(_sum(each) for name, each in self.lengths.items() if name not in OTHERS)
        copies = self.documents - len(np.unique(np.asarray(self.seen, dtype=np.uint64)))
        facts: dict[str, Any] = {"documents": self.documents, "tokens": tokens}
        if self.characters:
            facts |= {"characters": self.characters, "bytes": self.bytes}
        facts["lengths"] = {name: spread(each) for name, each in self.lengths.items()}
        if self.unknown is not None:
            facts["unknown"] = self.unknown_count
            facts["unknown_examples"] = [word for word, _ in self.examples.most_common(EXAMPLES)]
        facts["copies"] = copies
        if self.length is not None:
            facts["length"] = self.length
            columns = self.lengths.items()
            facts["cut"] = {n: _beyond(x, self.length) for n, x in columns if n not in OTHERS}
        return facts


def spread(lengths: Counter[int]) -> dict[str, Any]:
    """Minimum, median, mean, 95th percentile, maximum and histogram of the lengths."""
    sizes = np.array(sorted(lengths), dtype=np.int64)
    below = np.array([lengths[size] for size in sizes.tolist()]).cumsum()

    def at(share: float) -> int:
        """The smallest size that at least this share of the documents does not exceed."""
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
    """(from, to, count) of each bin: 0, 1, 2–3, 4–7, 8–15 …"""
    counts: Counter[int] = Counter()
    for size, count in lengths.items():
        counts[size.bit_length()] += count
    steps = range(min(counts), max(counts) + 1)
    return [(1 << step >> 1, max(0, (1 << step) - 1), counts[step]) for step in steps]


def _sum(lengths: Counter[int]) -> int:
    return sum(size * count for size, count in lengths.items())


def _beyond(lengths: Counter[int], most: int) -> dict[str, int]:
    """How many documents are longer than `most` tokens, how many tokens exceed it, and how many
    windows of `most` tokens cover everything."""
    longer = {size: count for size, count in lengths.items() if size > most}
    return {
        "documents": sum(longer.values()),
        "tokens": sum((size - most) * count for size, count in longer.items()),
        "windows": sum(-(-size // most) * count for size, count in lengths.items()),
    }
