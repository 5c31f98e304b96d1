"""Masking as in BERT: of the chosen tokens 80 % become [MASK], 10 % a random one, 10 % stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.data.hashing import below, uniform

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Unit = Literal["token", "word", "span"]
LONGEST, MEAN_SPAN = 10, 3.8  # tokens, as in SpanBERT; longer words are masked in parts


@dataclass(frozen=True)
class Masking:
    rate: float
    unit: Unit
    mask: int  # the id of [MASK]
    vocab: int
    forbidden: Flags  # (V,) special tokens: never masked, never inserted
    begins: Flags  # (V,) tokens that begin a word

    def __call__(self, tokens: Numbers, text: Numbers, key: Numbers, *keys: int) -> Any:
        """The tokens with some masked, and the indices of those (in order).

        `text` is the number of each token's text; `key` is its position in the data, which together
        with `keys` (seed, epoch) decides whether it is masked, whatever its neighbours are.
        """
        maskable = ~self.forbidden[tokens]
        chosen = np.flatnonzero(self._choose(tokens, text, key, maskable, *keys))
        position, draw = key[chosen], uniform(*keys, 1, key[chosen])
        hidden = tokens.copy()
        hidden[chosen[draw < 0.8]] = self.mask
        swapped = draw >= 0.9
        allowed = np.flatnonzero(~self.forbidden)
        hidden[chosen[swapped]] = allowed[below(len(allowed), *keys, 2, position[swapped])]
        return hidden, chosen

    def _choose(
        self, tokens: Numbers, text: Numbers, key: Numbers, maskable: Flags, *keys: int
    ) -> Flags:
        """Whole units in random order, up to the rate's share of each text's tokens, but at least
        one unit."""
        heads = np.flatnonzero(self._begins_unit(tokens, text, key, maskable, *keys))
        size = np.diff(heads, append=len(tokens))
        random_order = np.where(maskable[heads], uniform(*keys, 0, key[heads]), 2.0)
        by_text = 4 * text[heads] + random_order  # a draw is below 4
        order = np.argsort(by_text, kind="stable")
        texts, cost = text[heads][order], size[order]
        before = cost.cumsum() - cost
        before -= before[np.searchsorted(texts, texts, "left")]  # of the same text
        maskable_counts = np.bincount(text, weights=maskable, minlength=1)
        quota = np.round(self.rate * maskable_counts).astype(np.int64)[texts]
        chosen = np.zeros(len(heads), dtype=bool)
        chosen[order] = (before + cost <= quota) | (before == 0)
        return np.repeat(chosen, size) & maskable

    def _begins_unit(
        self, tokens: Numbers, text: Numbers, key: Numbers, maskable: Flags, *keys: int
    ) -> Flags:
        """Where units begin: tokens up to the next beginning are masked together."""
        if self.unit == "token":
            return np.ones(len(tokens), dtype=bool)
        begins: Flags = (np.diff(text, prepend=-1) != 0) | ~maskable
        begins[1:] |= ~maskable[:-1]
        if self.unit == "word":
            begins |= self.begins[tokens]
        else:  # a span ends at random, at a position that does not depend on its neighbours
            begins |= uniform(*keys, 3, key) < 1 / MEAN_SPAN
        position = np.arange(len(tokens))
        inside = position - np.maximum.accumulate(np.where(begins, position, 0))
        begins |= inside % LONGEST == 0
        return begins

    def most(self, tokens: int, texts: int) -> int:
        """An upper bound of the masked tokens: each text has at least one masked unit."""
        unit = 1 if self.unit == "token" else LONGEST
        return min(tokens, int(self.rate * tokens) + unit * texts)
