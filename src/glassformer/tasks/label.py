"""Labels for texts, for tokens, or for a span of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch.nn import functional as F

from glassformer.config import DOCUMENTS, TaskConfig
from glassformer.errors import InputError
from glassformer.model import Backbone, Batch, Cache, Look, Visitor
from glassformer.tasks.base import Ids, LossSum, Output, Task, cross_entropy
from glassformer.tasks.heads import Labels, pool, pooler
from glassformer.tasks.pooling import Important


class Features(Task):
    """A bare backbone: its output are vectors. It keeps the pooler that such checkpoints have."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        self.pooler = pooler(backbone.config.output_stack, task)

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        if self.pooler is None:
            return Output(hidden)
        first = pool(hidden, batch.sequences, "first")
        return Output(hidden, pooled=self.pooler(first, Look(visitor=visitor)))

    def logits(
        self,
        ids: Ids,
        *,
        segments: Ids | None = None,
        targets: Ids | None = None,
        documents: Sequence[int] | None = None,
    ) -> list[torch.Tensor]:
        raise InputError("this model has no head, and so no logits: call hidden(…)")


class Classification(Task):
    """One label per text or pair of texts: `classification` and `next_sentence`.

    With a single label it is regression with the squared error. Where a text may have several
    labels, each is a binary decision. Where the vector comes from attention over words, several
    texts may form one document.
    """

    per: ClassVar[Literal["token", "text"]] = "text"

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        self.important: Important | None = None
        if task.pool in DOCUMENTS:
            self.important = Important(self.width, sentences=task.pool == "hierarchy")
        self.pooler = pooler(backbone.config.output_stack, task)
        self.labels = Labels(backbone.config.output_stack, task)

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        if self.important is not None:
            vector = self.important(hidden, batch.sequences, batch.documents, visitor)
        else:
            vector = pool(hidden, batch.sequences, self.spec.pool)  # (B, C)
        if self.pooler is not None:
            vector = self.pooler(vector, look)
        logits = look.see(self, "logits", self.labels(vector))  # (B, K)
        if batch.labels is None:
            return Output(logits)
        if self.spec.several:  # (B, K) of 0 and 1
            real, labels = batch.labels != -100, batch.labels.clamp(min=0.0)
            loss = F.binary_cross_entropy_with_logits(logits.float(), labels, reduction="none")
            return Output(logits, {"labels": LossSum((loss * real).sum(), real.sum())})
        if len(self.spec.labels) == 1:
            real = batch.labels != -100
            errors = torch.where(real, logits[:, 0].float() - batch.labels, 0.0)
            return Output(logits, {"labels": LossSum(errors.square().sum(), real.sum())})
        return Output(logits, {"labels": cross_entropy(logits, batch.labels)})


class TokenClassification(Task):
    """One label per token."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        self.pooler = pooler(backbone.config.output_stack, task)
        self.labels = Labels(backbone.config.output_stack, task)

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        if self.pooler is not None:
            hidden = self.pooler(hidden, look)
        logits = look.see(self, "logits", self.labels(hidden))  # (N, K)
        if batch.labels is None:
            return Output(logits)
        return Output(logits, {"labels": cross_entropy(logits, batch.labels)})


class QuestionAnswering(Task):
    """Where an answer begins and ends: two scores per token, each a softmax over its text."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        self.labels = Labels(backbone.config.output_stack, task, count=2)

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        logits = look.see(self, "logits", self.labels(hidden))  # (N, 2)
        if batch.labels is None:  # (B, 2) first and last token of the answer
            return Output(logits)
        padded = batch.sequences.pad(logits, fill=-math.inf)  # (B, T, 2)
        loss = cross_entropy(padded.transpose(1, 2).flatten(0, 1), batch.labels.flatten())
        return Output(logits, {"labels": loss})
