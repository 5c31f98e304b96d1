"""What is to be learnt from a text: samples for an epoch, and a row of them as a batch.

Each is a function of (seed, epoch, sample): nothing is drawn, so nothing has to be remembered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.data.masking import Masking
from glassformer.data.packing import Numbers, Samples, windows
from glassformer.data.sentence_pairs import sentence_pairs, sentence_starts
from glassformer.data.special_tokens import SpecialTokenTemplate
from glassformer.data.store import Store, places
from glassformer.model import Batch, Sequences

NONE = -100  # no answer is wanted here


@dataclass(frozen=True)
class BatchShape:
    """For what is compiled or on tape: the sizes every row is filled up to."""

    tokens: int  # N
    texts: int  # B, of real texts; the filler's come on top
    longest: int
    wanted: int  # P, where only some tokens have answers

    @property
    def slots(self) -> int:
        return self.texts + -(-self.tokens // self.longest)


@dataclass(frozen=True)
class Skipped:
    """Texts that the model will not see, or not in one piece."""

    count: int
    what: str
    too_long: bool = False  # a greater objective.length would help


@dataclass(frozen=True)
class Objective(ABC):
    """Abstract; every child is final."""

    texts: ClassVar[int] = 1  # of a sample, in a batch

    store: Store
    frame: SpecialTokenTemplate
    length: int  # of a text with all its special tokens
    pad: int  # the filler's token
    seed: int

    @property
    def settings(self) -> tuple[Any, ...]:
        """All that decides the samples, beside the data."""
        names = (each.name for each in fields(self) if each.name not in ("store", "masking"))
        return type(self).__name__, *(getattr(self, name) for name in names)

    @abstractmethod
    def samples(self, epoch: int) -> Samples: ...

    @abstractmethod
    def costs(self, samples: Samples) -> Numbers:
        """How many tokens of a row each sample takes: (S,), or (S, 2) for source and target."""

    @abstractmethod
    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch: ...

    @abstractmethod
    def left_out(self) -> list[Skipped]: ...


@dataclass(frozen=True)
class NextWord(Objective):
    """Every token is to be told from those before it, in its own document."""

    def samples(self, epoch: int) -> Samples:
        offsets = self.store["tokens"].offsets
        return windows(offsets, self.length + 1, overlap=1, seed=self.seed, epoch=epoch)

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] - 1

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        column, sizes = self.store["tokens"], samples.first[:, 1] - 1
        where = places(np.stack([samples.first[:, 0], sizes], 1))
        tokens, sequences = row_of(column.at(where), sizes, shape, self.pad)
        return Batch(tokens, sequences, labels=filled(column.at(where + 1), len(tokens), NONE))

    def left_out(self) -> list[Skipped]:
        lone = np.diff(self.store["tokens"].offsets) < 2
        what = "documents with no word to predict, left out"
        return [in_parts(self.store, self.length), Skipped(int(lone.sum()), what)]


@dataclass(frozen=True)
class Masked(Objective):
    """Some tokens are hidden and to be told from both sides."""

    masking: Masking

    def samples(self, epoch: int) -> Samples:
        inside = self.length - self.frame.width
        offsets, behind = self.store["tokens"].offsets, len(self.store.end)  # the frame ends texts
        return windows(offsets, inside, overlap=0, seed=self.seed, epoch=epoch, without=behind)

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] + self.frame.width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        text = Ragged(self.store["tokens"].take(samples.first), samples.first[:, 1])
        row, sizes = laid(self.frame.before, text, self.frame.after)
        return self._hide(row, sizes, samples.first[:, 0], epoch, shape)

    def left_out(self) -> list[Skipped]:
        return [in_parts(self.store, self.length - self.frame.width)]

    def _hide(
        self, row: Numbers, sizes: Numbers, starts: Numbers, epoch: int, shape: BatchShape | None
    ) -> Batch:
        text = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(row)) + np.repeat(starts - (sizes.cumsum() - sizes), sizes)
        hidden, chosen = self.masking(row, text, place, self.seed, epoch)
        tokens, sequences = row_of(hidden, sizes, shape, self.pad)
        most = len(chosen) if shape is None else shape.wanted
        return Batch(
            tokens,
            sequences,
            labels=filled(row[chosen], most, NONE),
            label_positions=filled(chosen, most, 0),
        )


@dataclass(frozen=True)
class MaskedPairs(Masked):
    """As BERT was trained: hidden words, and whether the second text follows the first."""

    order: bool = False
    short: float = 0.1

    def samples(self, epoch: int) -> Samples:
        starts, document = sentence_starts(self.store["tokens"], self.store["sentences"])
        inside = self.length - self.frame.pair_width
        return sentence_pairs(
            starts, document, inside, self.order, self.short, seed=self.seed, epoch=epoch
        )

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        lone = samples.second[:, 1] == 0
        width = np.where(lone, self.frame.width, self.frame.pair_width)
        return samples.first[:, 1] + samples.second[:, 1] + width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None and samples.follows is not None  # noqa: S101
        frame, column = self.frame, self.store["tokens"]
        a, b = (Ragged(column.take(each), each[:, 1]) for each in (samples.first, samples.second))
        lone = samples.second[:, 1] == 0
        between, closing = either(lone, frame.after, frame.between), either(lone, (), frame.closing)
        row, sizes = laid(frame.before, a, between, b, closing)
        # The same first text may come twice, beside different second ones: both say where we are.
        starts = samples.first[:, 0] * 8191 + samples.second[:, 0]
        made = self._hide(row, sizes, starts, epoch, shape)
        return Batch(
            made.tokens,
            made.sequences,
            segments=segments_of(frame, sizes, b.sizes + closing.sizes, len(made.tokens)),
            labels=made.labels,
            label_positions=made.label_positions,
            next_sentence_labels=filled(samples.follows, made.sequences.count, NONE),
        )

    def left_out(self) -> list[Skipped]:
        starts, document = sentence_starts(self.store["tokens"], self.store["sentences"])
        near = np.diff(document) == 0  # is there a sentence behind it, and do both fit?
        fits = near & (starts[2:] - starts[:-2] <= self.length - self.frame.pair_width)
        paired, fitting = (np.append(a, False) | np.append(False, a) for a in (near, fits))
        lone = np.bincount(document)[document] == 1
        long = np.diff(starts)[lone] > self.length - self.frame.pair_width
        what = f"sentences too long for a pair of {self.length} tokens, left out"
        return [
            Skipped(int(lone.sum()), "documents of one sentence, without a pair"),
            Skipped(int((paired & ~fitting).sum()), what, too_long=True),
            Skipped(int(long.sum()), "of one sentence too long for the model, cut", too_long=True),
        ]


@dataclass(frozen=True)
class Translate(Objective):
    """Every word of the target is to be told from those before it and the whole source."""

    start: int  # what the decoder sees before the first word
    end: tuple[int, ...]
    smoothing: float = 0.0

    def samples(self, epoch: int) -> Samples:
        first, second = (
            np.stack([offsets[:-1], np.diff(offsets)], 1)
            for offsets in (self.store["source"].offsets, self.store["target"].offsets)
        )
        longest = np.maximum(first[:, 1] + self.frame.width, second[:, 1] + len(self.end))
        fits = (longest <= self.length) & (first[:, 1] > 0) & (second[:, 1] > 0)
        return Samples(first[fits], second[fits])

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        source = samples.first[:, 1] + self.frame.width
        return np.stack([source, samples.second[:, 1] + len(self.end)], 1)

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None  # noqa: S101
        source = Ragged(self.store["source"].take(samples.first), samples.first[:, 1])
        target = Ragged(self.store["target"].take(samples.second), samples.second[:, 1])
        read = laid(self.frame.before, source, self.frame.after)
        answers, sizes = laid(target, self.end)
        given = np.roll(answers, 1)  # each word is told from the one before it
        given[sizes.cumsum() - sizes] = self.start
        tokens, sequences = row_of(given, sizes, shape, self.pad)
        return Batch(
            tokens,
            sequences,
            source=Batch(*row_of(*read, shape, self.pad)),
            labels=filled(answers, len(tokens), NONE),
            smoothing=self.smoothing,
        )

    def left_out(self) -> list[Skipped]:
        sides = [np.diff(self.store[name].offsets) for name in ("source", "target")]
        empty = int(((sides[0] == 0) | (sides[1] == 0)).sum())
        too_long = self.store.documents - empty - len(self.samples(0))
        return [
            Skipped(empty, "pairs with an empty side, left out"),
            Skipped(
                too_long, f"pairs with a side of more than {self.length} tokens, left out", True
            ),
        ]


def in_parts(store: Store, inside: int, texts: str = "documents") -> Skipped:
    sizes = np.diff(store["tokens"].offsets) - len(store.end)
    what = f"{texts} of more than {inside} tokens, read in parts"
    return Skipped(int((sizes > inside).sum()), what, too_long=True)


class Ragged(NamedTuple):
    """Lists of different sizes, end to end."""

    values: Numbers
    sizes: Numbers


def laid(*parts: Ragged | tuple[int, ...]) -> Ragged:
    """Text by text, one part after the other; a tuple stands in every text."""
    count = next(len(part.sizes) for part in parts if isinstance(part, Ragged))
    widths = np.stack(
        [p.sizes if isinstance(p, Ragged) else np.full(count, len(p)) for p in parts], 1
    )
    begins = (widths.cumsum() - widths.reshape(-1)).reshape(widths.shape)
    row = np.empty(widths.sum(), dtype=np.int64)
    for part, at in zip(parts, begins.T, strict=True):
        if isinstance(part, Ragged):
            inside = part.sizes.cumsum() - part.sizes
            row[np.arange(len(part.values)) + np.repeat(at - inside, part.sizes)] = part.values
        else:
            for i, token in enumerate(part):
                row[at + i] = token
    return Ragged(row, widths.sum(1))


def either(first: npt.NDArray[np.bool_], then: tuple[int, ...], other: tuple[int, ...]) -> Ragged:
    """In each text the one tuple or the other."""
    found = [then if each else other for each in first]
    values = np.array([token for each in found for token in each], dtype=np.int64)
    return Ragged(values, np.array([len(each) for each in found], dtype=np.int64))


def segments_of(
    frame: SpecialTokenTemplate, sizes: Numbers, second: Numbers, size: int
) -> Tensor | None:
    """0 up to the end of the first text, 1 for the `second` tokens behind it; none if the
    tokenizer knows none."""
    if not frame.segments:
        return None
    both = np.stack([sizes - second, second], 1).reshape(-1)
    return filled(np.repeat(np.tile([0, 1], len(sizes)), both), size, 0)


def filled(values: npt.NDArray[Any], size: int, fill: int) -> Tensor:
    kind = np.float32 if values.dtype.kind == "f" else np.int64
    whole = np.full((size, *values.shape[1:]), fill, dtype=kind)
    whole[: len(values)] = values
    return torch.from_numpy(whole)


def row_of(
    row: Numbers, sizes: Numbers, shape: BatchShape | None, pad: int
) -> tuple[Tensor, Sequences]:
    """Texts end to end; in a fixed shape the rest of the row is filler that nobody learns from."""
    if shape is None:
        return torch.from_numpy(row), Sequences.of(sizes.tolist())
    rest = shape.tokens - len(row)
    if rest == 0 and (sizes == shape.longest).all():  # a full rectangle has kernels of its own
        return torch.from_numpy(row), Sequences.of(sizes.tolist())
    fillers = [shape.longest] * (rest // shape.longest)
    fillers += [rest % shape.longest] if rest % shape.longest else []
    tokens = filled(row, shape.tokens, pad)
    lengths = [*sizes.tolist(), *fillers]
    return tokens, Sequences.of(lengths, texts=shape.slots, longest=shape.longest)
