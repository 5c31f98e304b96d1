"""What was read of earlier prompts: a prompt that begins like one of them is read from there on.

kept      You are a helpful assistant. Who wrote     keys and values of each token
prompt    You are a helpful assistant. When was  →   only "When was" is read
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from torch import Tensor

from glassformer.model import Cache
from glassformer.tasks import Ids

Prompt = tuple[int, ...]
SHORTEST = 32  # tokens: shorter beginnings are read as fast as they are copied


class PrefixStore:
    """Keys and values of the prompts that were used last.

    Args:
        tokens: the most tokens of all of them together
    """

    def __init__(self, tokens: int) -> None:
        self.bound, self.tokens = tokens, 0
        self.prompts: OrderedDict[Prompt, list[Tensor]] = OrderedDict()
        self.shared = 0  # tokens that were not read again, so far

    def fill(self, cache: Cache, prompts: Ids) -> list[int]:
        """Copy into each text of an empty cache what is known of its prompt; returns how much.

        The last token of a prompt is always read: its logits are needed.
        """
        lengths = []
        for text, prompt in enumerate(map(tuple, prompts)):
            best = max(self.prompts, key=partial(_common, prompt), default=())
            length = min(_common(best, prompt), len(prompt) - 1)
            if length < SHORTEST:
                length = 0
            else:
                self.prompts.move_to_end(best)
                layers = (*cache.keys, *cache.values)
                for layer, kept in zip(layers, self.prompts[best], strict=True):
                    layer[text, :, :length] = kept[:, :length]
                cache.cut(text, length)
            lengths.append(length)
        self.shared += sum(lengths)
        return lengths

    def keep(self, cache: Cache, prompts: Ids, allowed: Tensor) -> None:
        """Keep what the cache has read of the last prompts that fit.

        Args:
            allowed: (B,) which texts may be kept
        """
        texts, room = [], self.bound
        for text in reversed(range(len(prompts))):
            length = len(prompts[text])
            if SHORTEST <= length <= room:
                texts.append(text)
                room -= length
        may = allowed.tolist() if texts else []  # waits for the device
        for text in reversed(texts):
            if may[text]:
                self._keep(cache, text, tuple(prompts[text]))

    def _keep(self, cache: Cache, text: int, key: Prompt) -> None:
        if any(_common(kept, key) == len(key) for kept in self.prompts):
            return
        for kept in [kept for kept in self.prompts if key[: len(kept)] == kept]:
            self._drop(kept)
        while self.tokens + len(key) > self.bound:
            self._drop(next(iter(self.prompts)))
        layers = (*cache.keys, *cache.values)
        self.prompts[key] = [layer[text, :, : len(key)].clone() for layer in layers]
        self.tokens += len(key)

    def _drop(self, prompt: Prompt) -> None:
        del self.prompts[prompt]
        self.tokens -= len(prompt)


def _common(one: Prompt, other: Prompt) -> int:
    """The number of tokens with which both begin, by bisection: comparing tuples is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
