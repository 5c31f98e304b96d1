"""A task is a backbone with a head on it: written once, for every model that can carry it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import TaskConfig
from glassformer.errors import InputError
from glassformer.model import Backbone, Batch, Cache, Visitor

Ids = Sequence[Sequence[int]]

# Tokens that go through the model at once: on a CPU what stays in its cache is fastest.
ROW = {"cpu": 1_024, "cuda": 262_144}


@dataclass(frozen=True, eq=False)
class Output:
    logits: Tensor  # one row a token, or one row a text
    loss: Tensor | None = None  # mean over `count` answers; None without labels
    count: Tensor | None = None
    follows: Tensor | None = None  # (B, 2) next sentence, where it is trained beside the words


class Task(nn.Module, ABC):
    """Abstract; every child is final."""

    per: ClassVar[Literal["token", "text"]] = "token"

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__()
        self.backbone = backbone
        self.task = task

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
            parts += self.backbone(batch).split(batch.sequences.lengths)
        return parts

    def logits(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> list[Tensor]:
        """What the head says, one tensor a text."""
        parts: list[Tensor] = []
        for batch in self.batches(ids, segments=segments, targets=targets):
            logits = self(batch).logits
            by_token = self.per == "token"
            parts += logits.split(batch.sequences.lengths) if by_token else logits.unbind()
        return parts

    def batches(
        self, ids: Ids, *, segments: Ids | None = None, targets: Ids | None = None
    ) -> Iterator[Batch]:
        """Checked, and laid end to end in rows of a size this device likes."""
        config = self.backbone.config
        self._check("ids", ids, config.vocab_size)
        if segments is not None:
            if config.segments == 0:
                raise InputError("segments: this model knows none, leave them out")
            self._check("segments", segments, config.segments, like=ids)
        if config.family == "seq2seq":
            if targets is None:
                raise InputError("targets: a translation model writes; give it targets=[[…], …]")
            self._check("targets", targets, config.vocab_size, texts=len(ids))
        elif targets is not None:
            raise InputError(f"targets: this {config.family} writes none, leave them out")
        for part in _rows(ids, targets, ROW.get(self.device.type, 16_384)):
            kinds = None if segments is None else segments[part]
            row = Batch.of(ids[part], segments=kinds, device=self.device)
            if targets is not None:
                row = Batch.of(targets[part], source=row, device=self.device)
            yield row

    def _check(
        self,
        name: str,
        lists: Ids,
        limit: int,
        *,
        like: Ids | None = None,
        texts: int | None = None,
    ) -> None:
        wanted = len(like) if like is not None else texts
        if wanted is not None and len(lists) != wanted:
            raise InputError(f"{name}: {len(lists)} lists for {wanted} texts: give one for each")
        longest = self.backbone.config.max_length
        for i, each in enumerate(lists):
            if len(each) == 0:
                raise InputError(f"{name}[{i}] is empty: give at least one token")
            if len(each) > longest:
                raise InputError(
                    f"{name}[{i}] has {len(each)} tokens and the model reads at most {longest}: "
                    "split the text"
                )
            if like is not None and len(each) != len(like[i]):
                raise InputError(
                    f"{name}[{i}] has {len(each)} entries for {len(like[i])} tokens: give one each"
                )
            if min(each) < 0 or max(each) >= limit:
                wrong = min(each) if min(each) < 0 else max(each)
                raise InputError(f"{name}[{i}] holds {wrong}: write numbers from 0 to {limit - 1}")


def _rows(ids: Ids, targets: Ids | None, budget: int) -> Iterator[slice]:
    """Consecutive texts, as many as fit the budget of tokens; a longer one goes alone."""
    start, filled = 0, 0
    for i, each in enumerate(ids):
        cost = len(each) + (0 if targets is None else len(targets[i]))
        if filled and filled + cost > budget:
            yield slice(start, i)
            start, filled = i, 0
        filled += cost
    if len(ids) > start:
        yield slice(start, len(ids))


def cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over the rows that have a label (not -100), and how many those are."""
    count = (labels != -100).sum()
    total = F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")
    return total / count.clamp(min=1), count
