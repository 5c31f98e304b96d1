"""Keys and values of the tokens read so far, so that each new token costs one step.

The caller creates the cache, owns it and passes it in; no module holds any state.

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

    It has room for `texts` texts of `capacity` tokens each. With `beams`, that many neighbouring
    texts share one source of at most `memory_capacity` tokens, which is kept once.
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
                f"a cache of {capacity} tokens for {texts} texts: use at least one text, and "
                f"1 to {config.max_length} tokens"
            )
        if config.family == "seq2seq" and memory_capacity < 1:
            raise InputError("memory_capacity is missing: pass the length of the longest source")
        config = config.output_stack

        def room(count: int, slots: int, width: int) -> list[Tensor]:
            sizes = (config.depth, count, config.group_heads, slots, width)
            return [*torch.zeros(sizes, device=device, dtype=dtype)]

        self.capacity, self.memory_capacity, self.beams = capacity, memory_capacity, beams
        self.keys = room(texts, capacity, config.query_width)  # of each layer (B, H, S, D)
        self.values = room(texts, capacity, config.mixed_width)
        self.lengths = torch.zeros(texts, dtype=torch.int32, device=device)  # (B,)
        self.counts = (0,) * texts  # the same, as plain numbers
        self.reach: int | None = None  # slots to look at, if the caller keeps the counts
        self.memory: Sequences | None = None  # set once the source has been read
        self.memory_keys = room(texts // beams, memory_capacity, config.query_width)
        self.memory_values = room(texts // beams, memory_capacity, config.mixed_width)

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    def after(self, queries: Sequences) -> Sequences:
        """The keys that the cache will hold once `queries` have been added."""
        ends = (self.lengths + queries.sizes).cumsum(0, dtype=torch.int32)
        offsets = torch.cat([ends.new_zeros(1), ends])
        if self.reach is not None:
            return Sequences(offsets, (), self.reach)
        counts = self.grown(queries.lengths)
        return Sequences(offsets, counts, max(counts))

    def grown(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The counts that the cache will have once texts of these lengths have been added."""
        if len(lengths) != len(self.counts):
            raise InputError(f"the cache holds {len(self.counts)} texts, not {len(lengths)}")
        counts = tuple(a + b for a, b in zip(self.counts, lengths, strict=True))
        if max(counts) > self.capacity:
            raise InputError(
                f"the cache has room for {self.capacity} tokens per text and {max(counts)} are "
                "needed: create it with a larger capacity"
            )
        return counts

    def cross_queries(self, queries: Sequences) -> Sequences:
        """The queries of each source: the beams of a text count as one text with more queries."""
        if self.beams == 1:
            return queries
        return Sequences(queries.offsets[:: self.beams], (), queries.longest * self.beams)

    def extend(
        self, layer: int, k: Tensor, v: Tensor, where: tuple[Tensor, Tensor], keys: Sequences
    ) -> tuple[Tensor, Tensor]:
        """Write new keys and values (N, H, D) to their (text, slot); return all, (B, H, S, D).

        When the cache was empty, the new ones are all there are: they are returned as they came.
        """
        every_k, every_v, (text, slot) = self.keys[layer], self.values[layer], where
        even, end = self.reach is None and keys.exact and len(set(self.counts)) == 1, keys.longest
        for every, new in ((every_k, k), (every_v, v)):
            if even:  # the same slots of all texts
                every[:, :, self.longest : end] = new.unflatten(0, (len(every), -1)).transpose(1, 2)
            else:
                every[text, :, slot] = new.to(every.dtype)
        if self.reach is None and self.longest == 0:
            return k, v
        return every_k[:, :, :end], every_v[:, :, :end]

    def remember(self, layer: int, k: Tensor, v: Tensor, memory: Sequences) -> None:
        """Keep the source's keys and values: cross attention needs them at every step."""
        if memory.longest > self.memory_capacity:
            raise InputError(
                f"the cache has room for {self.memory_capacity} tokens per source and "
                f"{memory.longest} are needed: create it with a larger memory_capacity"
            )
        text = memory.texts(k)
        slot = memory.positions(k, text)
        for every, new in ((self.memory_keys[layer], k), (self.memory_values[layer], v)):
            every[text, :, slot] = new.to(every.dtype)

    def recall(self, layer: int, memory: Sequences) -> tuple[Tensor, Tensor]:
        """The source's keys and values that `remember` has kept."""
        k, v = self.memory_keys[layer], self.memory_values[layer]
        return k[:, :, : memory.longest], v[:, :, : memory.longest]

    def advance(self, keys: Sequences) -> None:
        """End the step: the new keys and values count from now on."""
        self.lengths.copy_(keys.sizes)
        if self.reach is None:
            self.counts = keys.lengths

    def place(self, other: Cache, texts: Sequence[int]) -> None:
        """Copy text i of `other` into all beams of text texts[i]."""
        count, first, end = len(self.counts) // self.beams, texts[0], texts[-1] + 1
        neighbours = [*texts] == [*range(first, end)]  # a slice is copied by one kernel
        rows = slice(first, end) if neighbours else torch.tensor(texts, device=self.lengths.device)
        for mine, its in zip(self.tensors, other.tensors, strict=True):
            by_text = mine.view(count, len(mine) // count, *mine.shape[1:])  # each with its beams
            by_text[rows, :, :, : its.shape[2]] = its[:, None]
        self.lengths.view(count, -1)[rows] = other.lengths[:, None]
        counts = list(self.counts)
        for text, length in zip(texts, other.counts, strict=True):
            counts[text * self.beams : (text + 1) * self.beams] = [length] * self.beams
        self.counts = tuple(counts)

    def cut(self, text: int, length: int = 0) -> None:
        """Keep the first `length` tokens of this text."""
        self.lengths[text] = length
        self.counts = (*self.counts[:text], length, *self.counts[text + 1 :])

    def select(self, index: Tensor) -> None:
        """Text i becomes what text index[i] was: beams fork, finished texts leave."""
        order = index.tolist()
        used = self.longest
        self.keys, self.values = _pick(self.keys, index, used), _pick(self.values, index, used)
        lengths = self.lengths.index_select(0, index)
        same = len(order) == len(self.counts)  # then in place: CUDA graphs read it there
        self.lengths = self.lengths.copy_(lengths) if same else lengths
        self.counts = tuple(self.counts[i] for i in order)
        sources = [i // self.beams for i in order[:: self.beams]]
        if sources != list(range(len(self.memory_keys[0]))):
            index = torch.tensor(sources, device=index.device)
            self.memory_keys = _pick(self.memory_keys, index, self.memory_capacity)
            self.memory_values = _pick(self.memory_values, index, self.memory_capacity)
            if self.memory is not None and self.memory.lengths:
                counts = [self.memory.lengths[i] for i in sources]
                longest = self.memory.longest
                self.memory = Sequences.of(counts, device=index.device, longest=longest)

    @property
    def token_bytes(self) -> int:
        """The size of one token: its key and its value, in every layer and head."""
        return sum(layer[0, :, 0].nbytes for layer in (*self.keys, *self.values))

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.keys, *self.values, *self.memory_keys, *self.memory_values]

    @property
    def nbytes(self) -> int:
        """The size of the whole cache, in use or not."""
        return sum(layer.nbytes for layer in self.tensors)


def _pick(layers: list[Tensor], index: Tensor, used: int) -> list[Tensor]:
    """The rows `index` of each layer; if as many as before, in place: only those that move."""
    if len(index) != len(layers[0]):
        rows = [layer.new_zeros(len(index), *layer.shape[1:]) for layer in layers]
        for new, old in zip(rows, layers, strict=True):
            new[:, :, :used] = old[index, :, :used]
        return rows
    moved = (index != torch.arange(len(index), device=index.device)).nonzero()[:, 0]
    for part in (layer[:, :, :used] for layer in layers):
        part.index_copy_(0, moved, part.index_select(0, index[moved]))
    return layers
