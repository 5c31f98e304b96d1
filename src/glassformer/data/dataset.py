"""A dataset: samples for an epoch, and a row of samples as a batch.

Both are functions of (seed, epoch, sample): no random state has to be saved or restored. This
module does not import torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from glassformer.data.packing import Numbers, Samples
from glassformer.data.special_tokens import SpecialTokenTemplate
from glassformer.data.store import Column, Store

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch, Sequences

NO_LABEL = -100


@dataclass(frozen=True)
class BatchShape:
    """The sizes that every row is padded to, for compiled models and CUDA graphs."""

    tokens: int  # N
    texts: int  # B, without padding
    longest: int
    label_positions: int  # P, where only some tokens have labels

    @property
    def slots(self) -> int:
        """The texts of a row, those that are padding included."""
        return self.texts + -(-self.tokens // self.longest)


@dataclass(frozen=True)
class Skipped:
    """Texts that the model does not see, or sees only in parts."""

    count: int
    reason: str
    too_long: bool = False  # a larger objective.length would help


@dataclass(frozen=True)
class Dataset(ABC):
    """Abstract; every subclass is final."""

    texts_per_sample: ClassVar[int] = 1

    store: Store
    template: SpecialTokenTemplate
    length: int  # of a text with its special tokens
    pad: int  # the padding token
    seed: int

    @property
    def settings(self) -> tuple[Any, ...]:
        """Everything that decides the samples, besides the data."""
        names = (field.name for field in fields(self) if field.name not in ("store", "masking"))
        return type(self).__name__, *(getattr(self, name) for name in names)

    @property
    def is_training(self) -> bool:
        """Validation data has the seed -1."""
        return self.seed >= 0

    @abstractmethod
    def samples(self, epoch: int) -> Samples: ...

    @abstractmethod
    def costs(self, samples: Samples) -> Numbers:
        """The tokens of each sample in a row: (S,), or (S, 2) for source and target."""

    @abstractmethod
    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch: ...

    @abstractmethod
    def skipped(self) -> list[Skipped]: ...

    def unused(self) -> list[Skipped]:
        """Tokens in no sample of the first epoch, if there can be any. Counting them takes a pass
        over the data: only a dry run reports them."""
        return []

    def label_positions(self, budget: int, texts: int) -> int:
        """The most label positions in a row of this many tokens and texts; 0 if all tokens have
        labels."""
        return 0


class Ragged(NamedTuple):
    """Lists of different sizes, concatenated."""

    values: Numbers
    sizes: Numbers


def spans(column: Column) -> Numbers:
    """The span of every document of a column: (documents, 2) start and length."""
    offsets = column.offsets
    return np.stack([offsets[:-1], np.diff(offsets)], 1)


def owners(column: Column, samples: Numbers) -> Numbers:
    """The document that each span of `samples` belongs to."""
    documents: Numbers = np.searchsorted(column.offsets, samples[:, 0], "right") - 1
    return documents


def take(column: Column, samples: Numbers) -> Ragged:
    """The tokens of these spans."""
    return Ragged(column.take(samples), samples[:, 1])


def read_in_parts(store: Store, limit: int, texts: str = "documents") -> Skipped:
    """How many documents have more than `limit` tokens; `texts` is what the report calls them."""
    sizes = np.diff(store["tokens"].offsets) - len(store.end)
    reason = f"{texts} of more than {limit} tokens, read in parts"
    return Skipped(int((sizes > limit).sum()), reason, too_long=True)


def concatenate(*parts: Ragged | tuple[int, ...]) -> Ragged:
    """Join the parts within each text; a tuple is repeated in every text."""
    count = next(len(part.sizes) for part in parts if isinstance(part, Ragged))
    widths = np.stack(
        [p.sizes if isinstance(p, Ragged) else np.full(count, len(p)) for p in parts], 1
    )
    starts = (widths.cumsum() - widths.reshape(-1)).reshape(widths.shape)
    row = np.empty(widths.sum(), dtype=np.int64)
    for part, at in zip(parts, starts.T, strict=True):
        if isinstance(part, Ragged):
            begins = part.sizes.cumsum() - part.sizes
            row[np.arange(len(part.values)) + np.repeat(at - begins, part.sizes)] = part.values
        else:
            for i, token in enumerate(part):
                row[at + i] = token
    return Ragged(row, widths.sum(1))


def choose(first: npt.NDArray[np.bool_], one: tuple[int, ...], other: tuple[int, ...]) -> Ragged:
    """For each text the tuple `one` where `first` is true, else `other`."""
    tuples = [one if chosen else other for chosen in first]
    values = np.array([token for tokens in tuples for token in tokens], dtype=np.int64)
    return Ragged(values, np.array([len(tokens) for tokens in tuples], dtype=np.int64))


def pair_row(template: SpecialTokenTemplate, a: Ragged, b: Ragged | None) -> Ragged:
    """Texts, or pairs of texts, with their special tokens."""
    if b is None:
        return concatenate(template.before, a, template.after)
    return concatenate(template.before, a, template.between, b, template.closing)


def fill(values: npt.NDArray[Any], size: int, value: int) -> Tensor:
    """The values as a tensor with `size` rows, padded with `value`."""
    import torch

    dtype = np.float32 if values.dtype.kind == "f" else np.int64
    padded = np.full((size, *values.shape[1:]), value, dtype=dtype)
    padded[: len(values)] = values
    return torch.from_numpy(padded)


def segment_ids(
    template: SpecialTokenTemplate, sizes: Numbers, second: Numbers, size: int
) -> Tensor | None:
    """0 in the first text, 1 in the last `second` tokens; None if the tokenizer has no segments."""
    if not template.segments:
        return None
    both = np.stack([sizes - second, second], 1).reshape(-1)
    return fill(np.repeat(np.tile([0, 1], len(sizes)), both), size, 0)


def pack(row: Ragged, shape: BatchShape | None, pad: int) -> tuple[Tensor, Sequences]:
    """Pack texts end to end; a fixed shape is filled with padding that has no labels."""
    import torch

    from glassformer.model import Sequences

    values, sizes = row
    if shape is None:
        return torch.from_numpy(values), Sequences.of(sizes.tolist())
    padding = shape.tokens - len(values)
    if padding == 0 and (sizes == shape.longest).all():  # a full rectangle has faster kernels
        return torch.from_numpy(values), Sequences.of(sizes.tolist())
    pad_lengths = [shape.longest] * (padding // shape.longest)
    pad_lengths += [padding % shape.longest] if padding % shape.longest else []
    tokens = fill(values, shape.tokens, pad)
    lengths = [*sizes.tolist(), *pad_lengths]
    return tokens, Sequences.of(lengths, texts=shape.slots, longest=shape.longest)


def make_batch(tokens: Tensor, sequences: Sequences, **labels: Any) -> Batch:
    from glassformer.model import Batch

    return Batch(tokens, sequences, **labels)
