"""A task is a backbone with a head on it: written once, for every model that can carry it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import TaskConfig
from glassformer.errors import InputError
from glassformer.model import Backbone, Batch, Cache, Sequences, Visitor
from glassformer.model.kernels import HALF, triton_works
from glassformer.precision import widen
from glassformer.tasks.heads import pool

Ids = Sequence[Sequence[int]]

# Tokens that go through the model at once. On a CPU what stays in its cache is fastest; a GPU
# works on one row while the next is laid out.
ROW = {"cpu": 512, "cuda": 65_536}


@dataclass(frozen=True, eq=False)
class Sum:
    """A loss, summed, so that parts of a batch add up to the loss of the whole."""

    total: Tensor
    count: Tensor  # of how many answers

    @property
    def mean(self) -> Tensor:
        return self.total / self.count.clamp(min=1)


@dataclass(frozen=True, eq=False)
class Output:
    logits: Tensor  # one row a token, or one row a text
    losses: Mapping[str, Sum] = field(default_factory=dict)  # by the batch's field; empty without
    pooled: Tensor | None = None  # (B, C) of a bare encoder that comes with a pooler
    follows: Tensor | None = None  # (B, 2) next sentence, where it is trained beside the words

    @property
    def loss(self) -> Tensor:
        """The mean over the answers; where two things are learnt, the sum of their means."""
        if not self.losses:
            raise InputError("loss: the batch came without labels")
        return torch.stack([each.mean for each in self.losses.values()]).sum()


class Task(nn.Module, ABC):
    """Abstract; every child is final."""

    per: ClassVar[Literal["token", "text"]] = "token"

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__()
        self.backbone = backbone
        self.spec = task

    @abstractmethod
    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output: ...

    @property
    def device(self) -> torch.device:
        return self.backbone.words.device

    def hidden(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """The last layer's vectors, one (T, C) a text."""
        parts: list[Tensor] = []
        for batch in self.batches(ids, segments=segments, targets=targets):
            parts += widen(self.backbone(batch)).split(batch.sequences.lengths)
        return parts

    def logits(
        self,
        ids: Ids,
        *,
        segments: Ids | None = None,
        targets: Ids | None = None,
        documents: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """What the head says, one tensor a text; or one a document, of so many texts each."""
        parts: list[Tensor] = []
        for batch in self.batches(ids, segments=segments, targets=targets, documents=documents):
            logits = widen(self(batch).logits)
            by_token = self.per == "token"
            parts += logits.split(batch.sequences.lengths) if by_token else logits.unbind()
        return parts

    def vectors(self, ids: Ids, *, segments: Ids | None = None, pool_by: str = "mean") -> Tensor:
        """One vector a text, (B, C)."""
        rows = [
            pool(widen(self.backbone(batch)), batch.sequences, pool_by)
            for batch in self.batches(ids, segments=segments)
        ]
        return torch.cat(rows) if rows else torch.zeros(0, self.width, device=self.device)

    @property
    def width(self) -> int:
        return self.backbone.config.width

    def batches(
        self,
        ids: Ids,
        *,
        segments: Ids | None = None,
        targets: Ids | None = None,
        documents: Sequence[int] | None = None,
    ) -> Iterator[Batch]:
        """Checked, and laid end to end in rows of a size this device likes."""
        config = self.backbone.config
        self._check_lengths("ids", ids)
        if segments is not None:
            if config.segments == 0:
                raise InputError("segments: this model knows none, leave them out")
            self._check_lengths("segments", segments)
            if [len(each) for each in segments] != [len(each) for each in ids]:
                raise InputError("segments: give one number for each token of ids")
        if config.family == "seq2seq":
            if targets is None and self.spec.kind in ("classify", "span"):
                # It labels what it has read, by writing it once more.
                targets = [[config.ids.start or 0, *each[:-1]] for each in ids]
            if targets is None:
                raise InputError("targets: a translation model writes; give it targets=[[…], …]")
            if len(targets) != len(ids):
                raise InputError(f"targets: {len(targets)} lists for {len(ids)} texts: one each")
            self._check_lengths("targets", targets)
        elif targets is not None:
            raise InputError(f"targets: this {config.family} writes none, leave them out")
        counts = [1] * len(ids) if documents is None else list(documents)
        for part, whole in _rows(ids, targets, counts, ROW.get(self.device.type, 16_384)):
            row = _row("ids", ids[part], None if segments is None else segments[part])
            _check_numbers("ids", row.tokens, config.vocab_size)
            if row.segments is not None:
                _check_numbers("segments", row.segments, config.segments)
            if targets is not None:
                row = _row("targets", targets[part], source=row)
                _check_numbers("targets", row.tokens, config.vocab_size)
            if documents is not None:
                row = replace(row, documents=Sequences.of(counts[whole]))
            yield row.to(self.device)

    def _check_lengths(self, name: str, lists: Ids) -> None:
        most = self.backbone.config.max_length
        if isinstance(lists, str) or not hasattr(lists, "__getitem__"):
            raise InputError(f"{name} is {lists!r:.40}: give a list of lists of token ids")
        for i, each in enumerate(lists):
            if isinstance(each, str) or not hasattr(each, "__len__"):
                raise InputError(f"{name}[{i}] is {each!r:.40}: give a list of token ids")
            if len(each) == 0:
                raise InputError(f"{name}[{i}] is empty: give at least one token")
            if len(each) > most:
                raise InputError(
                    f"{name}[{i}] has {len(each)} tokens and the model reads at most {most}: "
                    "split the text"
                )


def _row(name: str, ids: Ids, segments: Ids | None = None, source: Batch | None = None) -> Batch:
    try:
        return Batch.of(ids, segments=segments, source=source)
    except (TypeError, OverflowError):
        numbers = [number for each in (*ids, *(segments or ())) for number in each]
        odd = [n for n in numbers if not isinstance(n, int) or not 0 <= n < 1 << 63]
        wrong = odd[0] if odd else numbers
        raise InputError(f"{name}: {wrong!r:.40} is no token id: write whole numbers") from None


def _check_numbers(name: str, row: Tensor, limit: int) -> None:
    low, high = (int(number) for number in row.aminmax())
    if low < 0 or high >= limit:
        wrong = low if low < 0 else high
        raise InputError(f"{name}: {wrong} is out of range: write numbers from 0 to {limit - 1}")


def _rows(
    ids: Ids, targets: Ids | None, counts: Sequence[int], budget: int
) -> Iterator[tuple[slice, slice]]:
    """Consecutive texts, and documents of so many of them: as many as fit the budget of tokens; a
    longer document goes alone."""
    begin = start = end = filled = 0
    for i, count in enumerate(counts):
        texts = slice(end, end + count)
        sides = (ids,) if targets is None else (ids, targets)
        cost = sum(len(each) for side in sides for each in side[texts])
        if filled and filled + cost > budget:
            yield slice(start, end), slice(begin, i)
            begin, start, filled = i, end, 0
        filled, end = filled + cost, end + count
    if end > start:
        yield slice(start, end), slice(begin, len(counts))


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Sum:
    """Over the rows that have a label (not -100)."""
    count = (labels != -100).sum()
    large = logits.is_cuda and logits.dtype in HALF and logits.shape[-1] >= 4096
    if large and triton_works(logits):
        from glassformer.kernels.cross_entropy import cross_entropy_sum

        return Sum(cross_entropy_sum(logits, labels, smoothing), count)
    total = F.cross_entropy(
        logits.float(), labels, ignore_index=-100, reduction="sum", label_smoothing=smoothing
    )
    return Sum(total, count)
