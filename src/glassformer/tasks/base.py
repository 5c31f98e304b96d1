"""A task is a backbone with a head and a loss: written once, for every model that can have it."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import TaskConfig
from glassformer.errors import InputError, with_article
from glassformer.kernels.spans import triton_works
from glassformer.model import Backbone, Batch, Cache, Sequences, Visitor
from glassformer.model.kernels import HALF
from glassformer.precision import widen
from glassformer.tasks.heads import pool

Ids = Sequence[Sequence[int]]

# Tokens per forward pass. A CPU is fastest while the activations fit its cache; a GPU computes one
# row while the next is prepared.
ROW = {"cpu": 512, "cuda": 65_536}


@dataclass(frozen=True, eq=False)
class LossSum:
    """A summed loss, so that the parts of a batch add up to the loss of the whole."""

    total: Tensor
    count: Tensor  # of labels

    @property
    def mean(self) -> Tensor:
        return self.total / self.count.clamp(min=1)


@dataclass(frozen=True, eq=False)
class Output:
    logits: Tensor  # one row per token, or one row per text
    losses: Mapping[str, LossSum] = field(default_factory=dict)  # by the batch's field of labels
    pooled: Tensor | None = None  # (B, C) of a bare encoder with a pooler
    next_sentence_logits: Tensor | None = None  # (B, 2) of a `masked_lm_nsp` model

    @property
    def loss(self) -> Tensor:
        """The mean over the labels; with several losses, the sum of their means."""
        if not self.losses:
            raise InputError("the batch has no labels: pass some to compute a loss")
        return torch.stack([loss.mean for loss in self.losses.values()]).sum()


class Task(nn.Module, ABC):
    """Abstract; every subclass is final."""

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
        return self.backbone.token_embedding.device

    def hidden(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """The last layer's vectors, one (T, C) tensor per text."""
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
        """The head's output, one tensor per text; or per document, of so many texts each."""
        parts: list[Tensor] = []
        for batch in self.batches(ids, segments=segments, targets=targets, documents=documents):
            logits = widen(self(batch).logits)
            by_token = self.per == "token"
            parts += logits.split(batch.sequences.lengths) if by_token else logits.unbind()
        return parts

    def vectors(
        self,
        ids: Ids,
        *,
        segments: Ids | None = None,
        pool_by: Sequence[str] = ("mean",),
        skip: int = 0,
        batch_size: int | None = None,
        advance: Callable[[int], None] = lambda count: None,
    ) -> Tensor:
        """One vector per text, (B, C); those of several poolings are concatenated.

        Args:
            skip: tokens at the start of each text that are not pooled
            batch_size: the most texts of a forward pass
            advance: called after each pass, with the number of its texts
        """
        rows: list[Tensor] = []
        for batch in self.batches(ids, segments=segments, batch_size=batch_size):
            hidden = widen(self.backbone(batch))
            rows.append(torch.cat([pool(hidden, batch.sequences, by, skip) for by in pool_by], -1))
            advance(batch.sequences.count)
        none = torch.zeros(0, len(pool_by) * self.width, device=self.device)
        return torch.cat(rows) if rows else none

    @property
    def width(self) -> int:
        return self.backbone.config.output_stack.width

    def batches(
        self,
        ids: Ids,
        *,
        segments: Ids | None = None,
        targets: Ids | None = None,
        documents: Sequence[int] | None = None,
        batch_size: int | None = None,
    ) -> Iterator[Batch]:
        """The texts, checked and laid end to end in rows of a size that suits the device, or of at
        most `batch_size` texts."""
        config = self.backbone.config
        self._check_lengths("ids", ids)
        if segments is not None:
            if config.segments == 0:
                raise InputError("segments: this model has none: leave them out")
            self._check_lengths("segments", segments)
            if list(map(len, segments)) != list(map(len, ids)):
                raise InputError("segments: pass one number for each token of ids")
        if config.family == "seq2seq":
            if targets is None and self.spec.traits.repeats_source:
                # As BART does: its decoder reads the source once more.
                targets = [[config.ids.start or 0, *text[:-1]] for text in ids]
            if targets is None:
                raise InputError("targets: a translation model needs them: pass targets=[[…], …]")
            if len(targets) != len(ids):
                raise InputError(
                    f"targets: {len(targets)} lists for {len(ids)} texts: pass one for each"
                )
            self._check_lengths("targets", targets)
        elif targets is not None:
            raise InputError(f"targets: {with_article(config.family)} has none: leave them out")
        counts = [1] * len(ids) if documents is None else list(documents)
        if batch_size is None:
            budget, most = ROW.get(self.device.type, 16_384), len(counts)
        else:
            budget, most = sys.maxsize, batch_size
        for part, whole in _rows(ids, targets, counts, budget, most):
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
            raise InputError(f"{name} is {lists!r:.40}: pass a list of lists of token ids")
        for i, text in enumerate(lists):
            if isinstance(text, str) or not hasattr(text, "__len__"):
                raise InputError(f"{name}[{i}] is {text!r:.40}: pass a list of token ids")
            if len(text) == 0:
                raise InputError(f"{name}[{i}] is empty: pass at least one token")
            if len(text) > most:
                raise InputError(
                    f"{name}[{i}] has {len(text)} tokens and the model reads at most {most}: "
                    "split the text"
                )


def _row(name: str, ids: Ids, segments: Ids | None = None, source: Batch | None = None) -> Batch:
    try:
        return Batch.of(ids, segments=segments, source=source)
    except (TypeError, OverflowError):
        numbers = [number for text in (*ids, *(segments or ())) for number in text]
        odd = [n for n in numbers if not isinstance(n, int) or not 0 <= n < 1 << 63]
        wrong = odd[0] if odd else numbers
        raise InputError(f"{name}: {wrong!r:.40} is not a token id: pass whole numbers") from None


def _check_numbers(name: str, row: Tensor, limit: int) -> None:
    low, high = (int(number) for number in row.aminmax())
    if low < 0 or high >= limit:
        wrong = low if low < 0 else high
        raise InputError(f"{name}: {wrong} is out of range: pass numbers from 0 to {limit - 1}")


def _rows(
    ids: Ids, targets: Ids | None, counts: Sequence[int], budget: int, most: int
) -> Iterator[tuple[slice, slice]]:
    """Slices of consecutive texts, and of the at most `most` documents they make up, that fit the
    token budget; a document that is longer gets a row of its own."""
    begin = start = end = filled = 0
    for i, count in enumerate(counts):
        texts = slice(end, end + count)
        sides = (ids,) if targets is None else (ids, targets)
        cost = sum(len(text) for side in sides for text in side[texts])
        if filled and (filled + cost > budget or i - begin == most):
            yield slice(start, end), slice(begin, i)
            begin, start, filled = i, end, 0
        filled, end = filled + cost, end + count
    if end > start:
        yield slice(start, end), slice(begin, len(counts))


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> LossSum:
    """Over the rows that have a label (not -100), with label smoothing."""
    count = (labels != -100).sum()
    large = logits.is_cuda and logits.dtype in HALF and logits.shape[-1] >= 4096
    if large and triton_works(logits):
        from glassformer.kernels.cross_entropy import cross_entropy_sum

        return LossSum(cross_entropy_sum(logits, labels, smoothing), count)
    total = F.cross_entropy(
        logits.float(), labels, ignore_index=-100, reduction="sum", label_smoothing=smoothing
    )
    return LossSum(total, count)
