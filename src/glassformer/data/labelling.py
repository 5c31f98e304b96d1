"""What is to be learnt from labelled texts: a class or a value, tags, answers, likeness.

As in `objectives`, everything is a function of (seed, epoch, sample).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from glassformer.data.hashing import uniform
from glassformer.data.objectives import (
    NONE,
    BatchShape,
    Objective,
    Ragged,
    Skipped,
    filled,
    in_parts,
    laid,
    row_of,
    segments_of,
)
from glassformer.data.packing import Numbers, Samples, windows
from glassformer.data.store import Column
from glassformer.model import Batch, Sequences


def whole(column: Column) -> Numbers:
    """Every document as a span: (documents, 2) start and length."""
    offsets = column.offsets
    return np.stack([offsets[:-1], np.diff(offsets)], 1)


def document(column: Column, spans: Numbers) -> Numbers:
    """Which one each span is of."""
    found: Numbers = np.searchsorted(column.offsets, spans[:, 0], "right") - 1
    return found


def answers_of(objective: Objective, samples: Samples) -> npt.NDArray[Any]:
    """The class, the value, or a 1 for each of its classes, of the document each sample is of."""
    store = objective.store
    owner = document(store["tokens"], samples.first)
    found: npt.NDArray[Any]
    if "several" not in store.columns:
        found = store["values" if "values" in store.columns else "labels"].row[owner]
        return found
    spans = whole(store["several"])[owner]
    found = np.zeros((len(owner), len(store.meta.labels)))
    found[np.repeat(np.arange(len(owner)), spans[:, 1]), store["several"].take(spans)] = 1.0
    return found


@dataclass(frozen=True)
class Classify(Objective):
    """A class, several, or a value, is to be told of a text or a pair of texts.

    A text that is too long is read in parts, and each of them is to tell; a pair is left out.
    """

    @property
    def paired(self) -> bool:
        return "second" in self.store.columns

    def samples(self, epoch: int) -> Samples:
        tokens = self.store["tokens"]
        if not self.paired:
            inside = self.length - self.frame.width
            return windows(tokens.offsets, inside, overlap=0, seed=self.seed, epoch=epoch)
        first, second = whole(tokens), whole(self.store["second"])
        fits = first[:, 1] + second[:, 1] <= self.length - self.frame.pair_width
        fits &= (first[:, 1] > 0) & (second[:, 1] > 0)
        return Samples(first[fits], second[fits])

    def costs(self, samples: Samples) -> Numbers:
        if samples.second is None:
            return samples.first[:, 1] + self.frame.width
        return samples.first[:, 1] + samples.second[:, 1] + self.frame.pair_width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        made = _texts(self, samples, shape, "tokens", "second")
        answers = answers_of(self, samples)
        return _with(made, labels=filled(answers, made.sequences.count, NONE))

    def left_out(self) -> list[Skipped]:
        tokens = self.store["tokens"]
        if not self.paired:
            empty = Skipped(
                int((whole(tokens)[:, 1] == 0).sum()), "texts without a token, left out"
            )
            return [in_parts(self.store, self.length - self.frame.width, "texts"), empty]
        count = self.store.documents - len(self.samples(0))
        return [Skipped(count, f"pairs of more than {self.length} tokens, left out", too_long=True)]


@dataclass(frozen=True)
class Documents(Objective):
    """A class, or a value, is to be told of a whole document, however long: of its sentences where
    the store knows them, each in parts if it is too long. To learn, some words are left out."""

    drop: float

    def samples(self, epoch: int) -> Samples:
        spans = whole(self.store["tokens"])
        return Samples(spans[spans[:, 1] > 0])

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] + self.frame.width * self._texts(samples)[1]

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        spans, counts = self._texts(samples)
        text = Ragged(self.store["tokens"].take(spans), spans[:, 1])
        if self.drop and self.seed >= 0:
            text = self._thinned(text, spans, epoch)
        row, sizes = laid(self.frame.before, text, self.frame.after)
        tokens, sequences = row_of(row, sizes, shape, self.pad)
        answers = answers_of(self, samples)
        documents = Sequences.of(counts.tolist())
        labels = filled(answers, len(answers), NONE)
        return Batch(tokens, sequences, documents=documents, labels=labels)

    def _texts(self, samples: Samples) -> tuple[Numbers, Numbers]:
        """Spans of all texts, and how many each document has."""
        inside = self.length - self.frame.width
        found = []
        owner = document(self.store["tokens"], samples.first)
        for number, (start, size) in zip(owner, samples.first, strict=True):
            edges = pairwise([*self._begins(number), size])
            begins = np.concatenate([np.arange(a, b, inside) for a, b in edges])
            found.append(np.stack([start + begins, np.diff(begins, append=size)], 1))
        return np.concatenate(found), np.array([len(each) for each in found])

    def _begins(self, number: int) -> Numbers:
        """Where the sentences of a document begin in it."""
        if "sentences" not in self.store.columns:
            return np.zeros(1, np.int64)
        column = self.store["sentences"]
        begins: Numbers = column.row[slice(*column.offsets[number : number + 2])]
        return begins

    def _thinned(self, text: Ragged, spans: Numbers, epoch: int) -> Ragged:
        """With some words left out, others in every epoch; each text keeps at least one."""
        starts = text.sizes.cumsum() - text.sizes
        place = np.arange(len(text.values)) + np.repeat(spans[:, 0] - starts, text.sizes)
        stays = uniform(self.seed, epoch, place) >= self.drop
        stays[starts[np.add.reduceat(stays, starts) == 0]] = True
        return Ragged(text.values[stays], np.add.reduceat(stays, starts, dtype=np.int64))

    def left_out(self) -> list[Skipped]:
        tokens, inside = self.store["tokens"], self.length - self.frame.width
        sizes = whole(tokens)[:, 1]
        empty = Skipped(int((sizes == 0).sum()), "empty texts, left out")
        if "sentences" in self.store.columns:
            begins = self.store["sentences"]
            starts = begins.row + np.repeat(tokens.offsets[:-1], np.diff(begins.offsets))
            sizes = np.diff(starts, append=len(tokens))
        what = f"texts of more than {inside} tokens, read in parts"
        return [Skipped(int((sizes > inside).sum()), what, too_long=True), empty]


@dataclass(frozen=True)
class Tags(Objective):
    """A tag is to be told of each word, at its first piece. A long sentence is cut between words,
    in the same places every time."""

    def samples(self, epoch: int) -> Samples:
        tokens, inside = self.store["tokens"], self.length - self.frame.width
        spans = whole(tokens)
        long = spans[:, 1] > inside
        begins = np.flatnonzero(self.store["labels"].row != NONE)  # of words
        parts = [_cut(int(start), int(size), inside, begins) for start, size in spans[long]]
        short = spans[~long & (spans[:, 1] > 0)]
        found = np.concatenate([short, *parts])
        return Samples(found[np.argsort(found[:, 0], kind="stable")])

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] + self.frame.width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        made = _texts(self, samples, shape, "tokens", "")
        around = [(NONE,) * len(part) for part in (self.frame.before, self.frame.after)]
        tags = Ragged(self.store["labels"].take(samples.first), samples.first[:, 1])
        answers, _ = laid(around[0], tags, around[1])
        return _with(made, labels=filled(answers, len(made.tokens), NONE))

    def left_out(self) -> list[Skipped]:
        sizes, inside = whole(self.store["tokens"])[:, 1], self.length - self.frame.width
        what = f"sentences of more than {inside} tokens, cut between words"
        return [
            Skipped(int((sizes > inside).sum()), what, too_long=True),
            Skipped(int((sizes == 0).sum()), "sentences without a token, left out"),
        ]


def _cut(start: int, size: int, inside: int, begins: Numbers) -> Numbers:
    """Parts of at most `inside` tokens that end where words begin, if any does."""
    parts, at, end = [], start, start + size
    while at < end:
        stop = min(at + inside, end)
        if stop < end:
            last = int(begins[np.searchsorted(begins, stop, "right") - 1])
            stop = last if last > at else stop
        parts.append((at, stop - at))
        at = stop
    return np.array(parts, dtype=np.int64)


@dataclass(frozen=True)
class Answers(Objective):
    """The first and the last token of the answer are to be told. A long context is read in windows
    that share `overlap` tokens; where one has no answer, the first token, [CLS], says so."""

    overlap: int

    def samples(self, epoch: int) -> Samples:
        asked, spans = whole(self.store["question"]), whole(self.store["tokens"])
        room = self._room(asked)
        step = np.maximum(1, room - np.minimum(self.overlap, room // 2))
        counts = 1 + np.maximum(0, -(-(spans[:, 1] - room) // step))
        counts = np.where((room > 0) & (asked[:, 1] > 0) & (spans[:, 1] > 0), counts, 0)
        owner = np.repeat(np.arange(len(asked)), counts)
        number = np.arange(len(owner)) - np.repeat(counts.cumsum() - counts, counts)
        begin = number * step[owner]
        size = np.minimum(spans[owner, 1] - begin, room[owner])
        return Samples(asked[owner], np.stack([spans[owner, 0] + begin, size], 1))

    def _room(self, asked: Numbers) -> Numbers:
        """For the context, beside the question."""
        return self.length - self.frame.pair_width - asked[:, 1]

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        return samples.first[:, 1] + samples.second[:, 1] + self.frame.pair_width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None  # noqa: S101
        frame = self.frame
        made = _texts(self, samples, shape, "question", "tokens")
        owner = document(self.store["question"], samples.first)
        spans = self.store["labels"].row.reshape(-1, 2)[owner]
        begin = samples.second[:, 0] - self.store["tokens"].offsets[owner]
        inside = (spans[:, 0] >= begin) & (spans[:, 1] < begin + samples.second[:, 1])
        lead = len(frame.before) + samples.first[:, 1] + len(frame.between)
        nothing = 0 if frame.before else NONE
        answers = np.where(inside[:, None], spans + (lead - begin)[:, None], nothing)
        labels = filled(answers.reshape(-1), 2 * made.sequences.count, NONE)
        return _with(made, labels=labels.reshape(-1, 2))

    def left_out(self) -> list[Skipped]:
        asked, spans = whole(self.store["question"]), whole(self.store["tokens"])
        room = self._room(asked)
        parts = f"contexts that do not fit {self.length} tokens, read in windows"
        return [
            Skipped(int(((spans[:, 1] > room) & (room > 0)).sum()), parts, too_long=True),
            Skipped(int((room <= 0).sum()), "questions without room for a context, left out", True),
        ]


@dataclass(frozen=True)
class Alike(Objective):
    """Two texts are to have like vectors: as near as their value says, or nearer to each other
    than to all others of the row. Texts 2 i and 2 i + 1 of a batch are pair i."""

    texts: ClassVar[int] = 2

    def samples(self, epoch: int) -> Samples:
        first, second = whole(self.store["tokens"]), whole(self.store["second"])
        longest = np.maximum(first[:, 1], second[:, 1]) + self.frame.width
        fits = (longest <= self.length) & (first[:, 1] > 0) & (second[:, 1] > 0)
        return Samples(first[fits], second[fits])

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        return samples.first[:, 1] + samples.second[:, 1] + 2 * self.frame.width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None  # noqa: S101
        frame, sides = self.frame, []
        for name, spans in (("tokens", samples.first), ("second", samples.second)):
            text = Ragged(self.store[name].take(spans), spans[:, 1])
            sides.append(laid(frame.before, text, frame.after))
        row, _ = laid(*sides)
        sizes = np.stack([side.sizes for side in sides], 1).reshape(-1)
        tokens, sequences = row_of(row, sizes, shape, self.pad)
        answers: npt.NDArray[Any] = np.arange(len(samples))
        if "values" in self.store.columns:
            answers = self.store["values"].row[document(self.store["tokens"], samples.first)]
        return Batch(tokens, sequences, labels=filled(answers, sequences.count // 2, NONE))

    def left_out(self) -> list[Skipped]:
        count = self.store.documents - len(self.samples(0))
        what = f"pairs with a side of more than {self.length} tokens, left out"
        return [Skipped(count, what, too_long=True)]


def _texts(
    objective: Objective, samples: Samples, shape: BatchShape | None, one: str, other: str
) -> Batch:
    """Texts, or pairs of texts, with all that stands around them."""
    frame, store = objective.frame, objective.store
    a = Ragged(store[one].take(samples.first), samples.first[:, 1])
    if samples.second is None:
        row, sizes = laid(frame.before, a, frame.after)
        tokens, sequences = row_of(row, sizes, shape, objective.pad)
        return Batch(tokens, sequences)
    b = Ragged(store[other].take(samples.second), samples.second[:, 1])
    row, sizes = laid(frame.before, a, frame.between, b, frame.closing)
    tokens, sequences = row_of(row, sizes, shape, objective.pad)
    second = b.sizes + len(frame.closing)
    return Batch(tokens, sequences, segments=segments_of(frame, sizes, second, len(tokens)))


def _with(batch: Batch, labels: Tensor) -> Batch:
    return Batch(batch.tokens, batch.sequences, segments=batch.segments, labels=labels)
