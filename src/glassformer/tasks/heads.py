"""What stands on a backbone: the last few linear maps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import ModelConfig, TaskConfig
from glassformer.model import Look, Norm, Sequences
from glassformer.model.block import ACTIVATIONS


def pool(hidden: Tensor, sequences: Sequences, how: str) -> Tensor:
    """One vector a text, (N, C) → (B, C): its first token's, its last token's, or the mean."""
    if how == "first":
        return hidden[sequences.offsets[:-1].long()]
    if how == "last":
        return hidden[sequences.offsets[1:].long() - 1]
    # In float32 and in a fixed order: a long text's sum does not fit into half precision.
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    sums = torch.segment_reduce(wide, "sum", offsets=sequences.offsets, axis=0)
    return (sums / sequences.sizes.clamp(min=1)[:, None]).to(hidden.dtype)


class Pooler(nn.Module):
    """tanh(W x + b) of the vector that stands for the text."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, look: Look) -> Tensor:
        return look.see(self, "out", torch.tanh(self.dense(x)))


class Transform(nn.Module):
    """BERT's step before the words: norm(act(W x + b))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = Norm(config)

    def forward(self, x: Tensor, look: Look) -> Tensor:
        y: Tensor = self.norm(self.activation(self.dense(x)), look)
        return y


class Words(nn.Module):
    """Back from vectors to words: logits = x · Eᵀ (+ b), E the token table or its own matrix."""

    def __init__(self, config: ModelConfig, *, bias: bool) -> None:
        super().__init__()
        shape = (config.vocab_size, config.width)
        self.weight = None if config.tied else nn.Parameter(torch.empty(shape).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if bias else None

    def forward(self, x: Tensor, table: Tensor) -> Tensor:  # (N, C) → (N, V)
        return F.linear(x, table if self.weight is None else self.weight, self.bias)


class Labels(nn.Module):
    """From a vector to a score for each label."""

    def __init__(self, config: ModelConfig, task: TaskConfig, count: int | None = None) -> None:
        super().__init__()
        self.dropout = nn.Dropout(task.dropout)
        self.linear = nn.Linear(config.width, count or len(task.labels), bias=task.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.dropout(x))
        return y
