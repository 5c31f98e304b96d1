"""Predict words: the masked ones (BERT), the next one (GPT), the translation's next one."""

from __future__ import annotations

from torch import Tensor

from glassformer.config import TaskConfig
from glassformer.model import Backbone, Batch, Cache, Look, Visitor
from glassformer.tasks.base import Output, Task, cross_entropy
from glassformer.tasks.heads import Labels, Pooler, Transform, Words, pool


class MaskedLM(Task):
    """Fill in the blanks; as `pretraining` also say whether B follows A. The losses are summed."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        config = backbone.config
        both = task.kind == "pretraining"
        self.transform = Transform(config)
        self.words = Words(config, bias=task.bias)
        self.pooler = Pooler(config) if both else None
        self.follows = Labels(config, task, count=2) if both else None

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        asked = hidden if batch.wanted is None else hidden[batch.wanted]  # (P, C)
        logits = look.see(self, "logits", self.say(asked, look))  # (P, V)
        follows = None
        if self.pooler is not None and self.follows is not None:
            first = pool(hidden, batch.sequences, "first")
            follows = look.see(self, "follows_logits", self.follows(self.pooler(first, look)))
        if batch.labels is None:
            return Output(logits, follows=follows)
        losses = {"labels": cross_entropy(logits, batch.labels, batch.smoothing)}
        if follows is not None and batch.follows is not None:
            losses["follows"] = cross_entropy(follows, batch.follows)
        return Output(logits, losses, follows=follows)

    def say(self, hidden: Tensor, look: Look) -> Tensor:  # (P, C) → (P, V)
        """From a vector of the last layer to a score for each word."""
        logits: Tensor = self.words(self.transform(hidden, look), self.backbone.words)
        return logits


class NextWord(Task):
    """Predict the next word from what came before: `causal_lm`, or with a source text `seq2seq`."""

    def __init__(self, backbone: Backbone, task: TaskConfig) -> None:
        super().__init__(backbone, task)
        self.words = Words(backbone.config, bias=task.bias)

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Output:
        look = Look(visitor=visitor)
        hidden = self.backbone(batch, cache=cache, visitor=visitor)
        asked = hidden if batch.wanted is None else hidden[batch.wanted]  # (P, C)
        logits = look.see(self, "logits", self.say(asked, look))  # (P, V)
        if batch.labels is None:
            return Output(logits)
        return Output(logits, {"labels": cross_entropy(logits, batch.labels, batch.smoothing)})

    def say(self, hidden: Tensor, look: Look) -> Tensor:  # (P, C) → (P, V)
        """From a vector of the last layer to a score for each word."""
        logits: Tensor = self.words(hidden, self.backbone.words)
        return logits
