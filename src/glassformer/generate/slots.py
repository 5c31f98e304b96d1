"""Slots of a cache: prompts are copied into them, beams fork, finished texts are dropped."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.model import Cache, Sequences


def place(cache: Cache, other: Cache, texts: Sequence[int]) -> None:
    """Text i of `other` becomes all beams of text texts[i] of `cache`."""
    where = torch.tensor(texts, device=cache.lengths.device)
    slots = (where[:, None] * cache.beams + torch.arange(cache.beams).to(where)).flatten()
    for name, places, beams in (
        ("keys", slots, cache.beams), ("values", slots, cache.beams),
        ("memory_keys", where, 1), ("memory_values", where, 1),
    ):  # fmt: skip
        for mine, its in zip(getattr(cache, name), getattr(other, name), strict=True):
            mine[places, :, : its.shape[2]] = its.repeat_interleave(beams, 0)
    cache.lengths[slots] = other.lengths.repeat_interleave(cache.beams)
    counts = list(cache.counts)
    for text, count in zip(texts, other.counts, strict=True):
        counts[text * cache.beams : (text + 1) * cache.beams] = [count] * cache.beams
    cache.counts = tuple(counts)


def forget(cache: Cache, text: int) -> None:
    """Empty the slot of this text."""
    cache.lengths[text] = 0
    cache.counts = (*cache.counts[:text], 0, *cache.counts[text + 1 :])


def select(cache: Cache, index: Tensor) -> None:
    """Text i becomes what text index[i] was: beams fork, finished texts are dropped."""
    order = index.tolist()
    for name in ("keys", "values"):
        _pick(cache, name, index)
    left = cache.lengths.index_select(0, index)
    cache.lengths = cache.lengths.copy_(left) if len(order) == len(cache.counts) else left
    cache.counts = tuple(cache.counts[i] for i in order)
    sources = [i // cache.beams for i in order[:: cache.beams]]
    if sources != list(range(len(cache.memory_keys[0]))):
        index = torch.tensor(sources, device=index.device)
        cache.memory_keys = [keys[index] for keys in cache.memory_keys]
        cache.memory_values = [values[index] for values in cache.memory_values]
        if cache.memory is not None and cache.memory.lengths:
            lengths = [cache.memory.lengths[i] for i in sources]
            longest = cache.memory.longest
            cache.memory = Sequences.of(lengths, device=index.device, longest=longest)


def _pick(cache: Cache, name: str, index: Tensor) -> None:
    """If the number of texts stays, copy the used part into the spare buffers."""
    now: list[Tensor] = getattr(cache, name)
    if len(index) != len(now[0]):
        setattr(cache, name, [tensor[index] for tensor in now])
        cache.spare.clear()
        return
    spare = cache.spare.pop(name, None)
    if spare is None:
        spare = [torch.zeros_like(tensor) for tensor in now]  # 0 · NaN would be NaN
    for old, new in zip(now, spare, strict=True):
        torch.index_select(old[:, :, : cache.longest], 0, index, out=new[:, :, : cache.longest])
    cache.spare[name] = now
    setattr(cache, name, spare)
