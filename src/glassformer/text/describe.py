"""What a tokenizer is, and how it tokenizes: for tables and JSON."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

from glassformer.text.tokenizer import Encoding, Tokenizer

BLOCK, SAMPLE = 2**12, 2**21  # characters: of a block, and of all blocks of a sample


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """Its kind, vocabulary size, special tokens by id, and the id of its unknown token."""
    config = json.loads(tokenizer.backend.to_str())
    model = config["model"]
    kind = model["type"].lower()
    if kind == "bpe" and not model["merges"]:
        kind = "bytes" if "ByteLevel" in json.dumps(config["pre_tokenizer"]) else "chars"
    unknown = model.get("unk_token")
    return {
        "kind": kind,
        "size": len(tokenizer),
        "special": {token["content"]: token["id"] for token in config["added_tokens"]},
        "unknown": tokenizer.id(unknown) if unknown else model.get("unk_id"),
    }


def longest_tokens(tokenizer: Tokenizer, count: int = 20) -> list[str]:
    """The longest tokens, as they are in a text."""
    special = tokenizer.backend.get_added_tokens_decoder()
    vocabulary = tokenizer.backend.get_vocab().items()
    ranked = sorted(
        (-len(token.removeprefix("##")), token, i) for token, i in vocabulary if i not in special
    )
    of_bytes = "ByteLevel" in type(tokenizer.backend.decoder).__name__
    return [tokenizer.decode([i]) if of_bytes else token for _, token, i in ranked[:count]]


def token_rows(encoding: Encoding, unknown: int | None) -> list[dict[str, Any]]:
    """The tokens of a text with their ids and spans; `unknown` is the id of the unknown token."""
    columns = zip(encoding.tokens, encoding.ids, encoding.spans, encoding.special, strict=True)
    return [
        {
            "piece": token,
            "id": i,
            "start": start,
            "end": end,
            "special": special,
            "unknown": i == unknown and not special,
        }
        for token, i, (start, end), special in columns
    ]


class TextSample:
    """Counts texts, and keeps blocks of them at even distances to measure a tokenizer with."""

    def __init__(self) -> None:
        self.documents = self.bytes = 0
        self._blocks: list[str] = []
        self._seen = self._characters = 0
        self._every = 1

    def add(self, text: str) -> None:
        """Count a text, and keep some of its blocks."""
        self.documents += 1
        self.bytes += len(text.encode("utf-8", "replace"))
        for start in range(0, len(text), BLOCK):
            if self._seen % self._every == 0:
                self._blocks.append(text[start : start + BLOCK])
                self._characters += len(self._blocks[-1])
            self._seen += 1
            if self._characters > SAMPLE:
                self._blocks = self._blocks[::3]  # an odd step: of pairs, both sides stay
                self._characters = sum(map(len, self._blocks))
                self._every *= 3

    def measure(self, tokenizer: Tokenizer, unknown: int | None) -> dict[str, Any]:
        """Bytes per token and the share of unknown tokens on the sample."""
        ids = list(chain.from_iterable(tokenizer.ids(self._blocks)))
        sample = sum(len(text.encode("utf-8")) for text in self._blocks)
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "sample_bytes": sample,
            "bytes_per_token": round(sample / max(len(ids), 1), 3),
            "unknown_share": round(sum(i == unknown for i in ids) / max(len(ids), 1), 6),
        }
