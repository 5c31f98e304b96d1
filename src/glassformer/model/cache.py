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
    """Rectangular though the batch is flat: static shapes, and a beam step is an index_select.

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

        def room(count: int, slots: int, width: int) -> Tensor:
            return torch.zeros(
                depth, count, config.group_heads, slots, width, device=device, dtype=dtype
            )

        self.capacity, self.beams = capacity, beams
        self.keys = room(texts, capacity, config.query_width)  # (L, B, H, S, D)
        self.values = room(texts, capacity, config.mixed_width)
        self.lengths = torch.zeros(texts, dtype=torch.int32, device=device)  # (B,)
        self.counts = (0,) * texts  # the same, as plain numbers
        self._spare: dict[str, Tensor] = {}  # room to write what is picked
        self.memory: Sequences | None = None  # set once the source has been read
        self.memory_keys = room(texts // beams, memory_capacity, config.query_width)
        self.memory_values = room(texts // beams, memory_capacity, config.mixed_width)

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

    def asking(self, queries: Sequences) -> Sequences:
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

    def place(self, other: Cache, texts: Sequence[int]) -> None:
        """Text i of `other` becomes all beams of text texts[i] of this one."""
        where = torch.tensor(texts, device=self.lengths.device)
        slots = (where[:, None] * self.beams + torch.arange(self.beams).to(where)).flatten()
        S, M = other.capacity, other.memory_keys.shape[3]
        for mine, its in ((self.keys, other.keys), (self.values, other.values)):
            mine[:, slots, :, :S] = its.repeat_interleave(self.beams, 1)
        self.memory_keys[:, where, :, :M] = other.memory_keys
        self.memory_values[:, where, :, :M] = other.memory_values
        self.lengths[slots] = other.lengths.repeat_interleave(self.beams)
        counts = list(self.counts)
        for text, count in zip(texts, other.counts, strict=True):
            counts[text * self.beams : (text + 1) * self.beams] = [count] * self.beams
        self.counts = tuple(counts)

    @property
    def token_bytes(self) -> int:
        """What one token takes: its key and its value, in every layer and head."""
        return self.keys[:, 0, :, 0].nbytes + self.values[:, 0, :, 0].nbytes

    @property
    def nbytes(self) -> int:
        """All of it, in use or not."""
        all_of_it = (self.keys, self.values, self.memory_keys, self.memory_values)
        return sum(each.nbytes for each in all_of_it)

    def forget(self, text: int) -> None:
        """As if nothing of this text had been read."""
        self.lengths[text] = 0
        self.counts = (*self.counts[:text], 0, *self.counts[text + 1 :])

    def select(self, index: Tensor) -> None:
        """Text i becomes what text index[i] was: beams fork, finished texts leave."""
        order = index.tolist()
        for name in ("keys", "values"):
            self._pick(name, index)
        self.lengths = self.lengths.index_select(0, index)
        self.counts = tuple(self.counts[i] for i in order)
        sources = [i // self.beams for i in order[:: self.beams]]
        if sources != list(range(self.memory_keys.shape[1])):
            index = torch.tensor(sources, device=index.device)
            self.memory_keys = self.memory_keys.index_select(1, index)
            self.memory_values = self.memory_values.index_select(1, index)
            if self.memory is not None:
                lengths = [self.memory.lengths[i] for i in sources]
                longest = self.memory.longest
                self.memory = Sequences.of(lengths, device=index.device, longest=longest)

    def _pick(self, name: str, index: Tensor) -> None:
        """Where as many stay, copy what is in use into the place of the step before the last."""
        now = getattr(self, name)
        if len(index) != now.shape[1]:
            setattr(self, name, now.index_select(1, index))
            self._spare.clear()
            return
        spare = self._spare.pop(name, None)
        spare = torch.zeros_like(now) if spare is None else spare  # 0 · NaN would be NaN
        used = (..., slice(self.longest), slice(None))
        torch.index_select(now[used], 1, index, out=spare[used])
        self._spare[name] = now
        setattr(self, name, spare)
