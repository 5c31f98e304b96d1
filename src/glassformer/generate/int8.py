"""Weights of one byte: a step of generation reads every weight once, so it takes as long as that.

    W ≈ scale · W8        one scale a row of W, W8 from −127 to 127

On a CPU the input is rounded to bytes as well, each token by a scale of its own: a text comes out
the same alone or in a batch. On other devices only the weights are, and the product is as usual.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.tasks import Task
from glassformer.tasks.heads import Words


class Int8(nn.Module):
    """In the place of a linear map."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    ends: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        scale = weight.float().abs().amax(1).clamp(min=1e-12) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        whole = (weight.float() / scale[:, None]).round().to(torch.int8)
        self.packed = _pack(whole, scale) if weight.device.type == "cpu" else None
        self.register_buffer("weight", whole if self.packed is None else None)
        self.register_buffer("ends", torch.tensor([[1.0, -1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        if self.packed is None:
            y: Tensor = F.linear(x, self.weight.to(x.dtype)) * self.scale.to(x.dtype)
            return y if self.bias is None else y + self.bias
        # The kernel has one scale for all tokens, from the least to the greatest number it sees:
        # each token is brought to −1 … 1 before, and two more columns see to it that both occur.
        most = x.abs().amax(-1, keepdim=True).clamp_min_(1e-12)
        whole = torch.cat([x / most, self.ends.expand(len(x), 2)], -1)
        y = torch.ops.quantized.linear_dynamic(whole, self.packed, REDUCED)
        y = y * most if self.bias is None else torch.addcmul(self.bias, y, most)
        return y.to(x.dtype)


class Int8Words(nn.Module):
    """In the place of `Words`: the table's own rows stay as they are, for looking words up."""

    def __init__(self, words: Words, table: Tensor) -> None:
        super().__init__()
        self.map = Int8(table if words.weight is None else words.weight, words.bias)
        self.scale = words.scale

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        y: Tensor = self.map(x if self.scale is None else x * self.scale)
        return y


def to_int8(task: Task) -> None:
    """Replace every linear map of the task. Only for use: what is rounded cannot be trained."""
    for module in list(task.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8(child.weight, child.bias))
            elif isinstance(child, Words):
                setattr(module, name, Int8Words(child, task.backbone.words))


def check_whole(task: Task) -> None:
    if any(isinstance(module, Int8) for module in task.modules()):
        raise InputError("these weights were rounded by int8(): save the model before that")


# Without VNNI two products are added in 16 bits: the input has to do with 7 bits then.
REDUCED = not torch.cpu._is_vnni_supported()


def _pack(whole: Tensor, scale: Tensor) -> object:
    wide = F.pad(whole.float(), (0, 2)) * scale[:, None]
    zeros = torch.zeros(len(scale), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # such tensors will go, some day after 2.13
        exact = torch.quantize_per_channel(wide, scale.double(), zeros, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(exact, None)
