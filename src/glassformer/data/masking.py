"""Which tokens are hidden, and behind what: 15 %, of them 80 % [MASK], 10 % another, 10 % as is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.data.hashing import below, uniform

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Unit = Literal["token", "word", "span"]
LONGEST, MEAN_SPAN = 10, 3.8  # tokens, of SpanBERT; longer words are hidden in parts


@dataclass(frozen=True)
class Masking:
    rate: float
    unit: Unit
    mask: int  # the id of [MASK]
    vocab: int
    forbidden: Flags  # (V,) special tokens: never hidden, never put in
    begins: Flags  # (V,) tokens that begin a word

    def __call__(self, tokens: Numbers, text: Numbers, key: Numbers, *keys: int) -> Any:
        """The tokens with some hidden, and which ones (in order).

        `text` says which text a token is of; `key` is its place in the data, which together with
        `keys` (seed, epoch) decides its fate, whatever stands beside it.
        """
        open_to = ~self.forbidden[tokens]
        chosen = np.flatnonzero(self._choose(tokens, text, key, open_to, *keys))
        place, fate = key[chosen], uniform(*keys, 1, key[chosen])
        hidden = tokens.copy()
        hidden[chosen[fate < 0.8]] = self.mask
        swapped = fate >= 0.9
        allowed = np.flatnonzero(~self.forbidden)
        hidden[chosen[swapped]] = allowed[below(len(allowed), *keys, 2, place[swapped])]
        return hidden, chosen

    def _choose(
        self, tokens: Numbers, text: Numbers, key: Numbers, open_to: Flags, *keys: int
    ) -> Flags:
        """Whole units in order of luck, as many tokens of each text as the rate says, at least
        one unit."""
        heads = np.flatnonzero(self._begins_unit(tokens, text, key, open_to, *keys))
        size = np.diff(heads, append=len(tokens))
        luck = np.where(open_to[heads], uniform(*keys, 0, key[heads]), 2.0)
        order = np.argsort(4 * text[heads] + luck, kind="stable")  # text by text; luck is below 4
        home, cost = text[heads][order], size[order]
        before = cost.cumsum() - cost
        before -= before[np.searchsorted(home, home, "left")]  # of the same text
        there = np.bincount(text, weights=open_to, minlength=1)
        wanted = np.round(self.rate * there).astype(np.int64)[home]
        chosen = np.zeros(len(heads), dtype=bool)
        chosen[order] = (before + cost <= wanted) | (before == 0)
        return np.repeat(chosen, size) & open_to

    def _begins_unit(
        self, tokens: Numbers, text: Numbers, key: Numbers, open_to: Flags, *keys: int
    ) -> Flags:
        """Tokens up to the next beginning are hidden together."""
        if self.unit == "token":
            return np.ones(len(tokens), dtype=bool)
        begins: Flags = (np.diff(text, prepend=-1) != 0) | ~open_to
        begins[1:] |= ~open_to[:-1]
        if self.unit == "word":
            begins |= self.begins[tokens]
        else:  # a span ends by chance, at a place that does not depend on what stands beside it
            begins |= uniform(*keys, 3, key) < 1 / MEAN_SPAN
        place = np.arange(len(tokens))
        inside = place - np.maximum.accumulate(np.where(begins, place, 0))
        begins |= inside % LONGEST == 0
        return begins

    def most(self, tokens: int, texts: int) -> int:
        """How many can be hidden in that many texts: each has at least one unit."""
        unit = 1 if self.unit == "token" else LONGEST
        return min(tokens, int(self.rate * tokens) + unit * texts)
