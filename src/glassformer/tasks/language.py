"""Predict tokens: the masked ones (BERT), the next one (GPT), the next one of a translation."""

from __future__ import annotations

from torch import Tensor

from glassformer.config import TaskConfig
from glassformer.model import Backbone, Batch, Cache, Look, Visitor
from glassformer.tasks.base import Output, Task, cross_entropy
from glassformer.tasks.heads import Labels, LMHead, Pooler, Transform, pool


class MaskedLM(Task):
    """Predict masked tokens; as `masked_lm_nsp`, also whether sentence B follows A."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        config = backbone.config
        next_sentence = task.kind == "masked_lm_nsp"
        self.transform = Transform(config)
        self.lm_head = LMHead(config, bias=task.bias)
        self.pooler = Pooler(config) if next_sentence else None
        self.follows = Labels(config, task, count=2) if next_sentence else None

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        at = batch.label_positions
        labelled = hidden if at is None else hidden[at]  # (P, C)
        logits = look.see(self, "logits", self.lm_logits(labelled, look))  # (P, V)
        follows = None
        if self.pooler is not None and self.follows is not None:
            first = pool(hidden, batch.sequences, "first")
            follows = look.see(self, "next_sentence_logits", self.follows(self.pooler(first, look)))
        if batch.labels is None:
            return Output(logits, next_sentence_logits=follows)
        losses = {"labels": cross_entropy(logits, batch.labels, batch.smoothing)}
        if follows is not None and batch.next_sentence_labels is not None:
            losses["next_sentence_labels"] = cross_entropy(follows, batch.next_sentence_labels)
        return Output(logits, losses, next_sentence_logits=follows)

    def lm_logits(self, hidden: Tensor, look: Look) -> Tensor:  # (P, C) → (P, V)
        """A score for each token of the vocabulary, from vectors of the last layer."""
        logits: Tensor = self.lm_head(self.transform(hidden, look), self.backbone.token_embedding)
        return logits


class CausalLM(Task):
    """Predict the next token from those before it: `causal_lm`, or with a source `translation`."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        self.lm_head = LMHead(backbone.config.output_stack, bias=task.bias)

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        at = batch.label_positions
        labelled = hidden if at is None else hidden[at]  # (P, C)
        logits = look.see(self, "logits", self.lm_logits(labelled, look))  # (P, V)
        if batch.labels is None:
            return Output(logits)
        return Output(logits, {"labels": cross_entropy(logits, batch.labels, batch.smoothing)})

    def lm_logits(self, hidden: Tensor, look: Look) -> Tensor:  # (P, C) → (P, V)
        """A score for each token of the vocabulary, from vectors of the last layer."""
        logits: Tensor = self.lm_head(hidden, self.backbone.token_embedding)
        return logits
