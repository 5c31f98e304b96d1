"""Keys and values of the tokens read so far, so that each new token costs one step.

The caller makes it, owns it and passes it in; no module remembers anything.

            slot 0  1  2  3  4  5  6  7 = capacity
    text 0      k  k  k  k  ·  ·  ·  ·     lengths[0] = 4
    text 1      k  k  ·  ·  ·  ·  ·  ·     lengths[1] = 2
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.errors import InputError
from glassformer.model.sequences import Sequences


class Cache:
    """Rectangular though the batch is flat: static shapes, and beams fork by index_select.

    Of a translation's beams, `beams` neighbours each look at the same source, which is kept once.
    """

    def __init__(
        self,
        config: ModelConfig,
        texts: int,
        capacity: int,
        *,
        memory_capacity: int = 0,
        beams: int = 1,
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

        def room(count: int, slots: int, width: int) -> list[Tensor]:
            sizes = (count, config.group_heads, slots, width)
            return [torch.zeros(sizes, device=device, dtype=dtype) for _ in range(depth)]

        self.capacity, self.memory_capacity, self.beams = capacity, memory_capacity, beams
        self.keys = room(texts, capacity, config.query_width)  # of each layer (B, H, S, D)
        self.values = room(texts, capacity, config.mixed_width)
        self.lengths = torch.zeros(texts, dtype=torch.int32, device=device)  # (B,)
        self.counts = (0,) * texts  # the same, as plain numbers
        self.reach: int | None = None  # slots to look at, where the caller keeps the counts
        self.spare: dict[str, list[Tensor]] = {}  # room for texts that change places
        self.memory: Sequences | None = None  # set once the source has been read
        self.memory_keys = room(texts // beams, memory_capacity, config.query_width)
        self.memory_values = room(texts // beams, memory_capacity, config.mixed_width)

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    def after(self, queries: Sequences) -> Sequences:
        """The keys there will be when `queries` have been added."""
        ends = (self.lengths + queries.sizes).cumsum(0, dtype=torch.int32)
        offsets = torch.cat([ends.new_zeros(1), ends])
        if self.reach is not None:
            return Sequences(offsets, (), self.reach)
        counts = self.grown(queries.lengths)
        return Sequences(offsets, counts, max(counts))

    def grown(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The counts there will be when texts of these lengths have been added."""
        if len(lengths) != len(self.counts):
            raise InputError(f"the cache is for {len(self.counts)} texts, not {len(lengths)}")
        counts = tuple(a + b for a, b in zip(self.counts, lengths, strict=True))
        if max(counts) > self.capacity:
            raise InputError(
                f"the cache has room for {self.capacity} tokens a text and {max(counts)} are "
                "needed: make it with a larger capacity"
            )
        return counts

    def cross_queries(self, queries: Sequences) -> Sequences:
        """Who asks each source: the beams of one text are as many queries of one text."""
        if self.beams == 1:
            return queries
        return Sequences(queries.offsets[:: self.beams], (), queries.longest * self.beams)

    def extend(
        self, layer: int, k: Tensor, v: Tensor, where: tuple[Tensor, Tensor], keys: Sequences
    ) -> tuple[Tensor, Tensor]:
        """Write new keys and values (N, H, D) to their (text, slot); return all, (B, H, S, D).

        The first time there is nothing but the new ones: they go on as the flat row they are.
        """
        text, slot = where
        every_k, every_v = self.keys[layer], self.values[layer]
        every_k[text, :, slot] = k.to(every_k.dtype)
        every_v[text, :, slot] = v.to(every_v.dtype)
        if self.reach is None and self.longest == 0:
            return k, v
        return every_k[:, :, : keys.longest], every_v[:, :, : keys.longest]

    def remember(self, layer: int, k: Tensor, v: Tensor, memory: Sequences) -> None:
        """Keep the source's keys and values: cross attention needs them at every step."""
        if memory.longest > self.memory_capacity:
            raise InputError(
                f"the cache has room for {self.memory_capacity} tokens of a source and "
                f"{memory.longest} are needed: make it with a larger memory_capacity"
            )
        text = memory.texts(k)
        slot = memory.positions(k, text)
        every_k, every_v = self.memory_keys[layer], self.memory_values[layer]
        every_k[text, :, slot] = k.to(every_k.dtype)
        every_v[text, :, slot] = v.to(every_v.dtype)

    def recall(self, layer: int, memory: Sequences) -> tuple[Tensor, Tensor]:
        k, v = self.memory_keys[layer], self.memory_values[layer]
        return k[:, :, : memory.longest], v[:, :, : memory.longest]

    def advance(self, keys: Sequences) -> None:
        """The step is done: what was written counts from now on."""
        self.lengths.copy_(keys.sizes)
        if self.reach is None:
            self.counts = keys.lengths

    @property
    def token_bytes(self) -> int:
        """What one token takes: its key and its value, in every layer and head."""
        return sum(each[0, :, 0].nbytes for each in (*self.keys, *self.values))

    @property
    def nbytes(self) -> int:
        """All of it, in use or not."""
        everything = (self.keys, self.values, self.memory_keys, self.memory_values)
        return sum(each.nbytes for layers in everything for each in layers)
