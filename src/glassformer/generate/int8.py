"""int8 weights: a decoding step reads every weight once, so a quarter of the bytes is read.

    W ≈ scale · W8        one scale a row of W, W8 from −127 to 127

On a CPU the input is rounded to 15 bits, with a scale for each token, and multiplied as two int8
halves, x ≈ scale · (128 · high + low). Integer products are exact: a text comes out the same alone
or in a batch, and on every processor. On other devices the product is in the model's dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.tasks import Task
from glassformer.tasks.heads import LMHead


class Int8Linear(nn.Module):
    """Replaces a linear layer."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        rounded, scale = round_rows(weight.detach())
        self.register_buffer("weight", rounded.to(torch.int8))  # (out, in)
        self.register_buffer("scale", scale[:, 0])
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu":
            y = _integer_linear(x, self.weight) * self.scale
        else:
            y = F.linear(x, self.weight.to(x.dtype)) * self.scale
        return (y if self.bias is None else y + self.bias).to(x.dtype)


def round_rows(x: Tensor, most: int = 127) -> tuple[Tensor, Tensor]:
    """Integers from −most to most, and the scale of each row: (n, k) → (n, k) and (n, 1)."""
    scale = x.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / most
    return (x / scale).round(), scale


def _integer_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x Wᵀ where W is int8: (n, k), (m, k) → (n, m)."""
    rounded, scale = round_rows(x, 127 * 128)
    high = (rounded / 128).round()
    # Both halves in one product: the weights are read once.
    halves = torch.cat([high, rounded - 128 * high]).to(torch.int8)
    upper, lower = _integer_product(halves, weight).chunk(2)
    return (128 * upper + lower) * scale


def _integer_product(x: Tensor, weight: Tensor) -> Tensor:
    if hasattr(torch, "_int_mm"):
        return torch._int_mm(x, weight.T).float()
    return F.linear(x.float(), weight.float())  # as exact as float32 sums are


class Int8LMHead(nn.Module):
    """Replaces `LMHead`; the embedding table itself stays as it is, for look-ups."""

    def __init__(self, head: LMHead, table: Tensor) -> None:
        super().__init__()
        self.map = Int8Linear(table if head.weight is None else head.weight, head.bias)
        self.scale, self.cap = head.scale, head.cap

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        y: Tensor = self.map(x if self.scale is None else x * self.scale)
        return y if self.cap is None else self.cap * torch.tanh(y / self.cap)


def to_int8(task: Task) -> None:
    """Replace every linear layer of the task, in place. The result cannot be trained."""
    for module in list(task.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child.weight, child.bias))
            elif isinstance(child, LMHead):
                setattr(module, name, Int8LMHead(child, task.backbone.token_embedding))


def is_int8(task: Task) -> bool:
    """Whether `to_int8` has rounded its weights."""
    return any(isinstance(module, Int8Linear) for module in task.modules())


def check_not_int8(task: Task) -> None:
    """InputError if the weights are int8: they cannot be saved."""
    if is_int8(task):
        raise InputError("int8 weights cannot be saved: save the model before calling int8()")
