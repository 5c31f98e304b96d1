"""Keys and values of the tokens read so far, so that each new token costs one step.

The caller makes it, owns it and passes it in; no module remembers anything.

            slot 0  1  2  3  4  5  6  7 = capacity
    text 0      k  k  k  k  ·  ·  ·  ·     lengths[0] = 4
    text 1      k  k  ·  ·  ·  ·  ·  ·     lengths[1] = 2
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.model.sequences import Sequences


class Cache:
    """Rectangular though the batch is flat: static shapes, and a beam step is an index_select."""

    def __init__(
        self,
        config: ModelConfig,
        texts: int,
        capacity: int,
        *,
        memory_capacity: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if texts < 1 or not 1 <= capacity <= config.max_length:
            raise InputError(
                f"a cache of {capacity} tokens for {texts} texts: write at least one text, and "
                f"1 to {config.max_length} tokens"
            )
        if config.family == "seq2seq" and memory_capacity < 1:
            raise InputError("memory_capacity: write how many tokens the longest source has")
        depth = config.decoder_depth or config.depth

        def room(slots: int, width: int) -> Tensor:
            return torch.zeros(
                depth, texts, config.group_heads, slots, width, device=device, dtype=dtype
            )

        self.capacity = capacity
        self.keys = room(capacity, config.query_width)  # (L, B, H, S, D)
        self.values = room(capacity, config.mixed_width)
        self.lengths = torch.zeros(texts, dtype=torch.int32, device=device)  # (B,)
        self.counts = (0,) * texts  # the same, as plain numbers
        self.memory: Sequences | None = None  # set once the source has been read
        self.memory_keys = room(memory_capacity, config.query_width)
        self.memory_values = room(memory_capacity, config.mixed_width)

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    def after(self, queries: Sequences) -> Sequences:
        """The keys there will be when `queries` have been added."""
        if queries.count != len(self.counts):
            raise InputError(f"the cache is for {len(self.counts)} texts, not {queries.count}")
        counts = tuple(a + b for a, b in zip(self.counts, queries.lengths, strict=True))
        if max(counts) > self.capacity:
            raise InputError(
                f"the cache has room for {self.capacity} tokens a text and {max(counts)} are "
                "needed: make it with a larger capacity"
            )
        ends = (self.lengths + queries.sizes).cumsum(0, dtype=torch.int32)
        return Sequences(torch.cat([ends.new_zeros(1), ends]), counts, max(counts))

    def extend(
        self, layer: int, k: Tensor, v: Tensor, where: tuple[Tensor, Tensor], keys: Sequences
    ) -> tuple[Tensor, Tensor]:
        """Write new keys and values (N, H, D) to their (text, slot); return all, (B, H, S, D).

        The first time there is nothing but the new ones: they go on as the flat row they are.
        """
        text, slot = where
        self.keys[layer, text, :, slot] = k.to(self.keys.dtype)
        self.values[layer, text, :, slot] = v.to(self.values.dtype)
        if self.longest == 0:
            return k, v
        return self.keys[layer, :, :, : keys.longest], self.values[layer, :, :, : keys.longest]

    def remember(self, layer: int, k: Tensor, v: Tensor, memory: Sequences) -> None:
        """Keep the source's keys and values: cross attention needs them at every step."""
        if memory.longest > self.memory_keys.shape[3]:
            raise InputError(
                f"the cache has room for {self.memory_keys.shape[3]} tokens of a source and "
                f"{memory.longest} are needed: make it with a larger memory_capacity"
            )
        text = memory.texts(k)
        slot = memory.positions(k, text)
        self.memory_keys[layer, text, :, slot] = k.to(self.keys.dtype)
        self.memory_values[layer, text, :, slot] = v.to(self.values.dtype)

    def recall(self, layer: int, memory: Sequences) -> tuple[Tensor, Tensor]:
        return (
            self.memory_keys[layer, :, :, : memory.longest],
            self.memory_values[layer, :, :, : memory.longest],
        )

    def advance(self, keys: Sequences) -> None:
        """The step is done: what was written counts from now on."""
        self.lengths.copy_(keys.sizes)
        self.counts = keys.lengths

    def select(self, index: Tensor) -> None:
        """Text i becomes what text index[i] was: beams fork, finished texts leave."""
        order = index.tolist()
        for name in ("keys", "values", "memory_keys", "memory_values"):
            setattr(self, name, getattr(self, name).index_select(1, index))
        self.lengths = self.lengths.index_select(0, index)
        self.counts = tuple(self.counts[i] for i in order)
        if self.memory is not None:
            self.memory = Sequences.of(
                [self.memory.lengths[i] for i in order],
                device=index.device,
                longest=self.memory.longest,
            )
