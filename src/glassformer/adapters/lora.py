"""LoRA: a linear map W stays as it is, and a product of two thin matrices is added to it.

    y = W x + b + scale · B A x        A: (R, in), B: (out, R), and the rank R is small

DoRA also learns the length m of each row: with V = W + scale · B A, y = m / ‖V‖ · V x + b.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.model.block import Dropout


class Lora(nn.Module):
    """The weights that are added to one linear map of a checkpoint.

    Such a map may be several of ours, one below the other: they share A, and each has rows of B.
    """

    def __init__(
        self, a: Tensor, b: Tensor, scale: float, *, magnitude: Tensor | None = None,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.a = nn.Parameter(a)  # (R, in)
        self.b = nn.Parameter(b)  # (out, R)
        self.magnitude = None if magnitude is None else nn.Parameter(magnitude)  # (out,)
        self.scale = scale
        self.dropout = Dropout(dropout)

    def product(self) -> Tensor:  # (out, in)
        """What is added to the weight."""
        return (self.b @ self.a) * self.scale


@dataclass(frozen=True)
class RowRange:
    """Which rows of a map in a checkpoint are ours: of each head, from `start` to `stop`."""

    start: int
    stop: int
    heads: int = 1

    def of(self, tensor: Tensor) -> Tensor:
        by_head: Tensor = tensor.unflatten(0, (self.heads, -1))
        return by_head[:, self.start : self.stop].flatten(0, 1)


class AdaptedLinear(nn.Module):
    """A linear map with its own weight and the LoRA that is added to it."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, lora: Lora, rows: RowRange) -> None:
        super().__init__()
        self._parameters = linear._parameters  # the same weight and bias, wherever they are moved
        self.lora, self.rows = lora, rows

    def forward(self, x: Tensor) -> Tensor:
        lora = self.lora
        added = F.linear(F.linear(lora.dropout(x), lora.a), self.rows.of(lora.b)) * lora.scale
        if lora.magnitude is None:
            return F.linear(x, self.weight, self.bias) + added
        product = (self.rows.of(lora.b) @ lora.a) * lora.scale
        y = (F.linear(x, self.weight) + added) * self._factor(lora.magnitude, product)
        return y if self.bias is None else y + self.bias

    def _factor(self, magnitude: Tensor, product: Tensor) -> Tensor:  # (out,)
        """From the length of each row to the learned one; the length counts as a constant."""
        lengths: Tensor = torch.linalg.norm((self.weight + product).detach(), dim=1)
        return self.rows.of(magnitude) / lengths

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """One linear map that computes the same."""
        product = self.rows.of(self.lora.product()).to(self.weight.dtype)
        weight = self.weight + product
        if self.lora.magnitude is not None:
            weight = self._factor(self.lora.magnitude, product)[:, None] * weight
        out, size = weight.shape
        linear = nn.Linear(size, out, bias=self.bias is not None, device="meta")
        linear.weight = nn.Parameter(weight)
        if self.bias is not None:
            linear.bias = nn.Parameter(self.bias.detach())
        return linear.train(self.training)


def swapped(module: nn.Module, changes: Mapping[nn.Module, nn.Module]) -> nn.Module:
    """The module with others in place of some of those inside it.

    Only what contains a change is a new object. All weights and all other modules are shared, so
    the module that is given stays as it is.
    """
    done: dict[nn.Module, nn.Module] = dict(changes)

    def change(old: nn.Module) -> nn.Module:
        if old not in done:
            children = {name: None if c is None else change(c) for name, c in old._modules.items()}
            done[old] = old
            if any(children[name] is not child for name, child in old._modules.items()):
                done[old] = copy.copy(old)
                done[old].__dict__["_modules"] = children
        return done[old]

    return change(module)
