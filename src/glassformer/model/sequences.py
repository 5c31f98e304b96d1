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
    """Copy to `device`: to a GPU without waiting; only the way back has to wait."""
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
    lengths: tuple[int, ...]  # the same, as Python numbers
    longest: int  # the longest length; may be rounded up, so that shapes repeat

    @classmethod
    def of(
        cls,
        lengths: Sequence[int],
        *,
        device: torch.device | str | None = None,
        texts: int | None = None,
        longest: int | None = None,
    ) -> Sequences:
        """Texts of these lengths. For static shapes, empty texts are appended up to `texts` in all,
        and `longest` is the length rounded up."""
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
        """Are all texts as long as the longest? Then the row `x` is a rectangle already."""
        return x.shape[0] == self.count * self.longest

    @property
    def exact(self) -> bool:
        """The same, by the lengths alone; False in a compiled graph, where they are unknown."""
        return not torch.compiler.is_compiling() and set(self.lengths) == {self.longest}

    def texts(self, x: Tensor) -> Tensor:
        """The text that each token of the row `x` belongs to. (N,)"""
        row = torch.arange(x.shape[0], device=x.device, dtype=torch.int32)
        return torch.searchsorted(self.offsets, row, right=True) - 1

    def positions(self, x: Tensor, texts: Tensor | None = None) -> Tensor:
        """The position of each token of the row `x` in its text. (N,)"""
        texts = self.texts(x) if texts is None else texts
        return torch.arange(x.shape[0], device=x.device) - self.offsets[texts]

    def pad(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """(N, …) → (B, longest, …), with `fill` after the short texts."""
        if self.even(x):
            return x.reshape(self.count, self.longest, *x.shape[1:])
        rectangle = x.new_full((self.count * self.longest, *x.shape[1:]), fill)
        rectangle = rectangle.index_copy(0, self._slots(x), x)
        return rectangle.reshape(self.count, self.longest, *x.shape[1:])

    def unpad(self, rectangle: Tensor, like: Tensor) -> Tensor:
        """(B, longest, …) → (N, …), a row as long as `like`."""
        flat = rectangle.flatten(0, 1)
        return flat if self.even(like) else flat.index_select(0, self._slots(like))

    def sums(self, x: Tensor) -> Tensor:
        """(N, …) → (B, …), the sum over each text."""
        return x.new_zeros(self.count, *x.shape[1:]).index_add(0, self.texts(x), x)

    def joined(self, documents: Sequences) -> Sequences:
        """The texts of each document as one; `documents.lengths` are their numbers of texts."""
        sizes = iter(self.lengths)
        lengths = tuple(sum(islice(sizes, count)) for count in documents.lengths)
        return Sequences(self.offsets[documents.offsets], lengths, max(lengths, default=0))

    def _slots(self, x: Tensor) -> Tensor:
        texts = self.texts(x)
        return texts * self.longest + self.positions(x, texts)


@dataclass(frozen=True, eq=False)
class Batch:
    """The input of a model, and for training its labels."""

    tokens: Tensor  # (N,)
    sequences: Sequences
    segments: Tensor | None = None  # (N,) 0 for sentence A, 1 for sentence B
    source: Batch | None = None  # seq2seq: the text to read; `tokens` are the target
    labels: Tensor | None = None  # what the model should predict; -100 where there is no label
    label_positions: Tensor | None = None  # (P,) the tokens with labels; None: all
    smoothing: float = 0.0  # the share of each label that is spread over the vocabulary
    next_sentence_labels: Tensor | None = None  # (B,) 0 if B follows A, 1 if it is random
    documents: Sequences | None = None  # the number of texts of each document; None: one each

    @classmethod
    def of(
        cls,
        ids: Sequence[Sequence[int]],
        *,
        segments: Sequence[Sequence[int]] | None = None,
        source: Batch | None = None,
        device: torch.device | str | None = None,
    ) -> Batch:
        """One text for each list of token ids, with `segments` of the same lengths."""

        def row(lists: Sequence[Sequence[int]]) -> Tensor:
            numbers = array("q", list(chain.from_iterable(lists)))
            return torch.frombuffer(numbers, dtype=torch.long) if numbers else torch.zeros(0).long()

        batch = cls(
            tokens=row(ids),
            sequences=Sequences.of([len(text) for text in ids]),
            segments=None if segments is None else row(segments),
            source=source,
        )
        return batch if device is None else batch.to(device)

    def to(self, device: torch.device | str) -> Batch:
        return self._map(lambda tensor: move(tensor, device))

    def pin(self) -> Batch:
        """In pinned memory, so that copying to a GPU overlaps with computing."""
        return self._map(Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """A copy with `change` applied to every tensor."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        copies: dict[str, Any] = {n: change(x) for n, x in parts.items() if isinstance(x, Tensor)}
        for name in ("sequences", "documents"):
            if parts[name] is not None:
                copies[name] = replace(parts[name], offsets=change(parts[name].offsets))
        source = None if self.source is None else self.source._map(change)
        return replace(self, **copies, source=source)
