"""The layer of the slides: attention, add & norm, feed-forward, add & norm."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import Activation, ModelConfig
from glassformer.kernels.gelu import gelu
from glassformer.model.attention import Attention
from glassformer.model.context import Context, Look

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, tanh=True),
    "silu": F.silu,
}


class Norm(nn.Module):
    """layer: γ · (x − μ) / σ + β over the entries of one position.   rms: γ · x / √mean(x²)."""

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        super().__init__()
        width = width or config.width
        shifts = config.norm == "layer" and config.norm_bias
        self.weight = nn.Parameter(torch.ones(width))  # γ
        self.bias = nn.Parameter(torch.zeros(width)) if shifts else None  # β
        self.eps = config.norm_eps
        self.centred = config.norm == "layer"

    def forward(self, x: Tensor, ctx: Look) -> Tensor:
        if self.centred:
            y = F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        else:
            y = F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return ctx.see(self, "out", y)


class Dropout(nn.Module):
    """In training, set each element to 0 with probability p and scale the others by 1 / (1 − p).

    In a compiled graph the random bits are a hash of the element's index and one seed: the usual
    generator would cost more than the rest of the kernel it is fused into.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0 or not torch.compiler.is_compiling():
            return F.dropout(x, self.p, self.training)
        seed = torch.randint(1 << 31, (1,), device=x.device, dtype=torch.int32)
        bits = torch.arange(x.numel(), device=x.device, dtype=torch.int32).view(x.shape) ^ seed
        for factor, shift in ((-1640531535, 15), (-2048144789, 13), (-1028477387, 16)):
            bits = bits * factor
            bits = bits ^ ((bits >> shift) & ((1 << (32 - shift)) - 1))
        kept = (bits & 0xFFFF) >= round(self.p * 0x10000)
        return torch.where(kept, x / (1 - self.p), 0.0)


class NoNorm(nn.Module):
    """The identity, where the embeddings' norm serves the first layer."""

    def forward(self, x: Tensor, ctx: Look) -> Tensor:
        return x


class MLP(nn.Module):
    """W_2 · act(W_1 x), the same for every position.   gated: W_2 · (act(W_g x) · W_1 x)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        C, wide, bias = config.width, config.mlp_width, config.mlp_bias
        self.gate = nn.Linear(C, wide, bias=bias) if config.gated else None  # W_g
        self.up = nn.Linear(C, wide, bias=bias)  # W_1
        self.down = nn.Linear(wide, C, bias=bias)  # W_2
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout.mlp)

    def forward(self, x: Tensor, ctx: Look) -> Tensor:
        if self.gate is None:
            hidden = self.activation(self.up(x))
        else:
            hidden = self.activation(self.gate(x)) * self.up(x)
        hidden = ctx.see(self, "hidden", hidden)
        return ctx.see(self, "out", self.down(self.dropout(hidden)))


class Block(nn.Module):
    """One layer. Its output has the shape of its input, so layers stack.

    post-norm  x ──┬── attention ──(+)── norm ──┬── MLP ──(+)── norm ──▶
                   └────────────────┘           └──────────┘

    pre-norm   x ──┬── norm ── attention ──(+)──┬── norm ── MLP ──(+)──▶
                   └────────────────────────┘   └──────────────────┘
    """

    def __init__(self, config: ModelConfig, *, layer: int, cross: bool = False) -> None:
        super().__init__()
        self.attention = Attention(config, layer=layer)
        self.attention_norm = Norm(config) if config.first_norm or layer > 0 else NoNorm()
        self.cross = Attention(config, layer=layer, cross=True) if cross else None
        self.cross_norm = Norm(config) if cross else None
        self.mlp = MLP(config)
        self.mlp_norm = Norm(config)
        self.dropout = Dropout(config.dropout.residual)
        self.pre = config.norm_place == "pre"

    def forward(self, x: Tensor, ctx: Context) -> Tensor:  # (N, C) → (N, C)
        drop, see = self.dropout, ctx.see
        if self.pre:
            mixed = self.attention(self.attention_norm(x, ctx), ctx)
            x = see(self, "attention_sum", x + drop(mixed))
            if self.cross is not None and self.cross_norm is not None:
                x = see(self, "cross_sum", x + drop(self.cross(self.cross_norm(x, ctx), ctx)))
            return see(self, "out", x + drop(self.mlp(self.mlp_norm(x, ctx), ctx)))

        x = self.attention_norm(see(self, "attention_sum", x + drop(self.attention(x, ctx))), ctx)
        if self.cross is not None and self.cross_norm is not None:
            x = self.cross_norm(see(self, "cross_sum", x + drop(self.cross(x, ctx))), ctx)
        x = self.mlp_norm(see(self, "mlp_sum", x + drop(self.mlp(x, ctx))), ctx)
        return see(self, "out", x)
