"""The parts of heads: the last few linear layers on a backbone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import ModelConfig, TaskConfig
from glassformer.model import Look, Norm, Sequences
from glassformer.model.block import ACTIVATIONS, Dropout
from glassformer.precision import widen

POOLING = ("first", "last", "mean", "max", "mean_sqrt_len", "weightedmean")


def pool(hidden: Tensor, sequences: Sequences, mode: str, skip: int = 0) -> Tensor:
    """One vector per text, (N, C) → (B, C): its "first" or "last" token's, or the "mean", or
    another mode of sentence-transformers.

        max             the largest of each number
        mean_sqrt_len   the sum over √T
        weightedmean    the mean with weights 1 … T, so that later tokens count more

    The first `skip` tokens of each text, those of a prompt, are left out.
    """
    if skip:
        hidden = hidden[sequences.positions(hidden) >= skip]
        rest = [max(length - skip, 0) for length in sequences.lengths]
        sequences = Sequences.of(rest, device=hidden.device)
    if mode == "first":
        # An empty text has none. Not len(hidden): in an exported graph it would be a constant.
        return hidden[sequences.offsets[:-1].clamp(max=hidden.shape[0] - 1)]
    if mode == "last":
        return hidden[(sequences.offsets[:-1] + sequences.sizes - 1).clamp(min=0)]
    texts = sequences.texts(hidden)
    if mode == "max":
        largest = hidden.new_zeros(sequences.count, hidden.shape[1])
        index = texts[:, None].expand_as(hidden)
        return largest.scatter_reduce(0, index, hidden, "amax", include_self=False)
    # In float32: the sum of a long text would overflow half precision.
    wide = widen(hidden)
    sizes = sequences.sizes.clamp(min=1).to(wide.dtype)
    if mode == "weightedmean":
        wide = wide * (sequences.positions(hidden, texts) + 1 + skip)[:, None]
        sizes = sizes * ((sizes + 1) / 2 + skip)
    elif mode == "mean_sqrt_len":
        sizes = sizes.sqrt()
    return (sequences.sums(wide) / sizes[:, None]).to(hidden.dtype)


POOLERS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
}


class Pooler(nn.Module):
    """act(W x + b), usually of the vector that represents the text."""

    def __init__(self, config: ModelConfig, activation: str = "tanh") -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.activation = POOLERS[activation]

    def forward(self, x: Tensor, look: Look) -> Tensor:
        return look.see(self, "out", self.activation(self.dense(x)))


class Transform(nn.Module):
    """BERT's step before the LM head: norm(act(W x + b)), as wide as the token table."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        bias = config.norm_bias  # models without biases in their norms have none here
        self.dense = nn.Linear(config.width, config.table_width, bias=bias)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = Norm(config, config.table_width)

    def forward(self, x: Tensor, look: Look) -> Tensor:
        y: Tensor = self.norm(self.activation(self.dense(x)), look)
        return y


def pooler(config: ModelConfig, task: TaskConfig) -> Pooler | Transform | None:
    """The pooler that `task.pooler` names, if any."""
    if task.pooler is None:
        return None
    return Transform(config) if task.pooler == "transform" else Pooler(config, task.pooler)


class LMHead(nn.Module):
    """From vectors to words: logits = x · Eᵀ (+ b), E the token table or its own matrix."""

    def __init__(self, config: ModelConfig, *, bias: bool) -> None:
        super().__init__()
        shape = (config.vocab_size, config.table_width)
        self.scale = config.width**-0.5 if config.output_scale else None
        self.cap = config.logit_cap
        self.weight = None if config.tied else nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if bias else None

    def forward(self, x: Tensor, table: Tensor) -> Tensor:  # (N, C) → (N, V)
        x = x if self.scale is None else x * self.scale
        y = self._product(x, table if self.weight is None else self.weight)
        return y if self.cap is None else self.cap * torch.tanh(y / self.cap)

    def _product(self, x: Tensor, table: Tensor) -> Tensor:
        if x.is_cuda and len(table) % 8 and len(x) % 8 == 0 and not x.requires_grad:
            # A matrix with an odd number of columns is slow to compute: for 64 vectors and GPT-2's
            # 50,257 words, F.linear takes 158 µs and this product 25 µs.
            y = (table @ x.T).T
            return y if self.bias is None else y + self.bias
        return F.linear(x, table, self.bias)


class Labels(nn.Module):
    """From a vector to a score for each label."""

    def __init__(self, config: ModelConfig, task: TaskConfig, count: int | None = None) -> None:
        super().__init__()
        self.dropout = Dropout(task.dropout)
        self.linear = nn.Linear(config.width, count or len(task.labels), bias=task.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(self.dropout(x))
        return y
