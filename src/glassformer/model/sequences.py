"""A batch is a row of tokens: all texts laid end to end, nothing padded."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor


def move(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Towards a GPU there is no need to wait; away from it there is."""
    return tensor.to(device, non_blocking=torch.device(device).type == "cuda")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Where each text of the row begins and ends.

        the cat sat │ hello │ it was so      N = 7 tokens, B = 3 texts
        offsets    0        3       4     7
        texts()    0 0 0      1       2 2 2
        positions  0 1 2      0       0 1 2

    Linear layers, norms and MLPs never look at this; only attention does.
    """

    offsets: Tensor  # (B + 1,) int32
    lengths: tuple[int, ...]  # the same, as plain numbers
    longest: int  # at least the longest text; may be rounded up, so that shapes repeat

    @classmethod
    def of(
        cls,
        lengths: Sequence[int],
        *,
        device: torch.device | str | None = None,
        texts: int | None = None,
        longest: int | None = None,
    ) -> Sequences:
        """For static shapes: `texts` appends empty texts, `longest` rounds the length up."""
        filled = tuple(lengths) + (0,) * ((texts or 0) - len(lengths))
        offsets = torch.tensor([0, *filled], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return cls(offsets.to(device), filled, longest or max(filled, default=0))

    def to(self, device: torch.device | str) -> Sequences:
        return replace(self, offsets=move(self.offsets, device))

    @property
    def sizes(self) -> Tensor:  # (B,)
        return self.offsets.diff()

    @property
    def count(self) -> int:
        return self.offsets.shape[0] - 1

    def even(self, x: Tensor) -> bool:
        """Are all texts as long as the longest? Then the row is a rectangle already."""
        return x.shape[0] == self.count * self.longest

    @property
    def exact(self) -> bool:
        """The same question asked of the lengths alone; unknown (no) inside a compiled graph."""
        return not torch.compiler.is_compiling() and set(self.lengths) == {self.longest}

    def texts(self, x: Tensor) -> Tensor:
        """Which text each token of the row `x` belongs to. (N,)"""
        row = torch.arange(x.shape[0], device=x.device, dtype=torch.int32)
        return torch.searchsorted(self.offsets, row, right=True) - 1

    def positions(self, x: Tensor, texts: Tensor | None = None) -> Tensor:
        """How far each token of the row `x` is from the start of its text. (N,)"""
        texts = self.texts(x) if texts is None else texts
        return torch.arange(x.shape[0], device=x.device) - self.offsets[texts]

    def pad(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """(N, …) → (B, longest, …), with `fill` behind the short texts."""
        if self.even(x):
            return x.reshape(self.count, self.longest, *x.shape[1:])
        rectangle = x.new_full((self.count * self.longest, *x.shape[1:]), fill)
        rectangle = rectangle.index_copy(0, self._slots(x), x)
        return rectangle.reshape(self.count, self.longest, *x.shape[1:])

    def unpad(self, rectangle: Tensor, like: Tensor) -> Tensor:
        """(B, longest, …) → (N, …), the row that `like` has."""
        flat = rectangle.flatten(0, 1)
        return flat if self.even(like) else flat.index_select(0, self._slots(like))

    def joined(self, documents: Sequences) -> Sequences:
        """The texts of each document as one: it says how many texts each has."""
        sizes = iter(self.lengths)
        lengths = tuple(sum(islice(sizes, count)) for count in documents.lengths)
        return Sequences(self.offsets[documents.offsets], lengths, max(lengths, default=0))

    def _slots(self, x: Tensor) -> Tensor:
        texts = self.texts(x)
        return texts * self.longest + self.positions(x, texts)


@dataclass(frozen=True, eq=False)
class Batch:
    """What goes into a model."""

    tokens: Tensor  # (N,)
    sequences: Sequences
    segments: Tensor | None = None  # (N,) 0 for sentence A, 1 for sentence B
    source: Batch | None = None  # seq2seq: the text to read; `tokens` is the text to write
    labels: Tensor | None = None  # the right answers; -100 where none is wanted
    label_positions: Tensor | None = None  # (P,) the tokens that labels are for; all, if not given
    smoothing: float = 0.0  # how much of each label is spread over all words
    next_sentence_labels: Tensor | None = None  # (B,) 0 if B follows A, 1 if B is a random text
    documents: Sequences | None = None  # how many texts make up each document; one, if not given

    @classmethod
    def of(
        cls,
        ids: Sequence[Sequence[int]],
        *,
        segments: Sequence[Sequence[int]] | None = None,
        source: Batch | None = None,
        device: torch.device | str | None = None,
    ) -> Batch:
        def row(lists: Sequence[Sequence[int]]) -> Tensor:
            numbers = array("q", list(chain.from_iterable(lists)))
            return torch.frombuffer(numbers, dtype=torch.long) if numbers else torch.zeros(0).long()

        batch = cls(
            tokens=row(ids),
            sequences=Sequences.of([len(each) for each in ids]),
            segments=None if segments is None else row(segments),
            source=source,
        )
        return batch if device is None else batch.to(device)

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda tensor: move(tensor, device))

    def pin(self) -> Batch:
        """In memory that a GPU can fetch by itself, while both go on working."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """A copy with every tensor changed."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        found: dict[str, Any] = {n: change(x) for n, x in parts.items() if isinstance(x, Tensor)}
        for name in ("sequences", "documents"):
            if parts[name] is not None:
                found[name] = replace(parts[name], offsets=change(parts[name].offsets))
        source = None if self.source is None else self.source._each(change)
        return replace(self, **found, source=source)
