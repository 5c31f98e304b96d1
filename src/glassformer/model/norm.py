"""Norms: they bring the entries of a vector to one scale, so that layers stack."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import ModelConfig
from glassformer.model.context import Look


class Norm(nn.Module):
    """layer: γ · (x − μ) / σ + β over the entries of one position.   rms: γ · x / √mean(x²)."""

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        super().__init__()
        self.width = width or config.width
        shifts = config.norm == "layer" and config.norm_bias
        self.weight = nn.Parameter(torch.ones(self.width))  # γ
        self.bias = nn.Parameter(torch.zeros(self.width)) if shifts else None  # β
        self.eps = config.norm_eps
        self.centred = config.norm == "layer"
        self.plus_one = config.norm_plus_one

    def forward(self, x: Tensor, ctx: Look) -> Tensor:
        if self.centred:
            y = F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        elif self.plus_one:  # 1 + γ needs more digits than half precision has
            wide = torch.promote_types(x.dtype, torch.float32)
            y = F.rms_norm(x.to(wide), self.weight.shape, 1 + self.weight.to(wide), self.eps).to(x)
        else:
            y = F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return ctx.see(self, "out", y)


class NoNorm(nn.Module):
    """The identity, in the place of a norm that this architecture does not have."""

    def forward(self, x: Tensor, ctx: Look) -> Tensor:
        return x
