"""The layer of the slides: attention, add & norm, feed-forward, add & norm."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import Activation, ModelConfig
from glassformer.kernels.dropout import hashed_dropout
from glassformer.kernels.gelu import gelu
from glassformer.model.attention import Attention
from glassformer.model.context import Context, Look
from glassformer.model.norm import NoNorm, Norm

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, tanh=True),
    "silu": F.silu,
}


class Dropout(nn.Module):
    """In training, set each element to 0 with probability p and scale the others by 1 / (1 − p).

    In a compiled graph the random bits are a hash of the element's index and one seed: the usual
    generator would cost more than the rest of the kernel it is fused into.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return (hashed_dropout if torch.compiler.is_compiling() else F.dropout)(x, self.p)


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
               branch: the norms stand after attention and MLP; sandwich: before and after
               parallel: the MLP reads x, too, and not the sum
    """

    def __init__(self, config: ModelConfig, layer: int, memory_width: int | None = None) -> None:
        super().__init__()
        cross = memory_width is not None
        before = config.norm_place != "branch"
        after = config.norm_place in ("branch", "sandwich")
        first = before and (config.first_norm or layer > 0)
        self.attention = Attention(config, layer)
        self.attention_norm = Norm(config) if first else NoNorm()
        self.attention_out_norm = Norm(config) if after else NoNorm()
        self.cross = Attention(config, layer, memory_width) if cross else None
        self.cross_norm = Norm(config) if cross else None
        self.cross_out_norm = Norm(config) if cross and after else NoNorm()
        self.mlp = MLP(config)
        self.mlp_norm = Norm(config) if before else NoNorm()
        self.mlp_out_norm = Norm(config) if after else NoNorm()
        self.dropout = Dropout(config.dropout.residual)
        self.post, self.parallel = config.norm_place == "post", config.parallel

    def forward(self, x: Tensor, ctx: Context) -> Tensor:  # (N, C) → (N, C)
        drop, see = self.dropout, ctx.see
        if not self.post:
            mixed = self.attention(self.attention_norm(x, ctx), ctx)
            y = see(self, "attention_sum", x + drop(self.attention_out_norm(mixed, ctx)))
            if self.cross is not None and self.cross_norm is not None:
                crossed = self.cross(self.cross_norm(y, ctx), ctx)
                y = see(self, "cross_sum", y + drop(self.cross_out_norm(crossed, ctx)))
            added = self.mlp(self.mlp_norm(x if self.parallel else y, ctx), ctx)
            return see(self, "out", y + drop(self.mlp_out_norm(added, ctx)))

        x = self.attention_norm(see(self, "attention_sum", x + drop(self.attention(x, ctx))), ctx)
        if self.cross is not None and self.cross_norm is not None:
            x = self.cross_norm(see(self, "cross_sum", x + drop(self.cross(x, ctx))), ctx)
        x = self.mlp_norm(see(self, "mlp_sum", x + drop(self.mlp(x, ctx))), ctx)
        return see(self, "out", x)
