"""Sentence embeddings, trained on pairs of texts."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.model import Batch, Cache, Visitor
from glassformer.tasks.base import LossSum, Output, Task, cross_entropy
from glassformer.tasks.heads import pool
from glassformer.tasks.label import Features


class SentenceEmbedding(Task):
    """A bare backbone in training: texts 2 i and 2 i + 1 of a batch are pair i.

    labels     the loss of pair i
    integers   in-batch negatives: cross-entropy over the scaled cosines of its first text with
               all second texts (`symmetric`: and of its second text with all first texts)
    floats     the squared distance of its cosine from the label

    A pair with label -100 is ignored. The backbone is saved as `Features`.
    """

    per: ClassVar[Literal["token", "text"]] = "text"

    def __init__(
        self,
        features: Features,
        *,
        pooling: str = "mean",
        scale: float = 20.0,
        symmetric: bool = False,
    ) -> None:
        super().__init__(features.backbone, features.spec)
        self.pooler = features.pooler
        self.pooling, self.scale, self.symmetric = pooling, scale, symmetric

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        vectors = pool(hidden, batch.sequences, self.pooling)  # (2 P, C)
        if batch.labels is None:
            return Output(vectors)
        pairs = vectors[: 2 * len(batch.labels)].unflatten(0, (-1, 2))
        first, second = F.normalize(pairs.float(), dim=-1).unbind(1)  # (P, C)
        real = batch.labels != -100
        if batch.labels.is_floating_point():
            cosines = (first * second).sum(-1)
            errors = torch.where(real, cosines - batch.labels, 0.0)
            return Output(vectors, {"labels": LossSum(errors.square().sum(), real.sum())})
        scores = (self.scale * first @ second.T).masked_fill(~real, -math.inf)  # (P, P)
        loss = cross_entropy(scores, batch.labels)
        if self.symmetric:
            across = (self.scale * second @ first.T).masked_fill(~real, -math.inf)
            other: Tensor = cross_entropy(across, batch.labels).total
            loss = LossSum((loss.total + other) / 2, loss.count)
        return Output(vectors, {"labels": loss})
