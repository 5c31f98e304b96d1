"""int8 and int4 weights in the place of those of the linear layers."""

from __future__ import annotations

from typing import Any, Self, TypeGuard

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError, shown
from glassformer.kernels.quantized import (
    GROUP,
    METHODS,
    Method,
    Product,
    from_nibbles,
    nibbles,
    product,
    round_int4,
    round_int8,
)
from glassformer.tasks import Task, outline
from glassformer.tasks.heads import LMHead


class QuantLinear(nn.Module):
    """Replaces a linear layer. Its weights stay on the meta device if those of the layer are."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None
    product: Product

    def __init__(self, weight: Tensor, bias: Tensor | None, method: Method) -> None:
        super().__init__()
        fits = all(size % GROUP == 0 for size in weight.shape)
        self.method: Method = method if fits else "int8"
        rounded, scale = _rounded(weight.detach(), self.method)
        self.register_buffer("weight", rounded)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.pack()

    def pack(self) -> None:
        """Bring the weights into the layout of the kernel, after they have changed or moved."""
        values = from_nibbles(self.weight) if self.method == "int4" else self.weight
        self.product = product(self.method, values, self.scale)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        scale = self.scale  # its dtype does not depend on the model's
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.scale = scale.to(self.weight.device)
        self.pack()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.bias).to(x.dtype)


class QuantLMHead(nn.Module):
    """Replaces `LMHead`, always in int8: the order of the best tokens depends on small differences.

    The embedding table itself stays as it is, for look-ups. A tied head is not saved: it is rounded
    from the table again.
    """

    def __init__(self, head: LMHead, table: Tensor) -> None:
        super().__init__()
        self.map = QuantLinear(table if head.weight is None else head.weight, head.bias, "int8")
        self.scale, self.cap = head.scale, head.cap

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        y: Tensor = self.map(x if self.scale is None else x * self.scale)
        return y if self.cap is None else self.cap * torch.tanh(y / self.cap)


def quantize(task: Task, method: Method) -> None:
    """Replace every linear layer of the task, in place. The result cannot be trained."""
    for module in list(task.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, QuantLinear(child.weight, child.bias, method))
            elif isinstance(child, LMHead):
                setattr(module, name, QuantLMHead(child, task.backbone.token_embedding))


def quantization(task: nn.Module) -> Method | None:
    """How `quantize` has rounded its weights; None if it has not."""
    methods = {module.method for module in task.modules() if isinstance(module, QuantLinear)}
    return "int4" if "int4" in methods else "int8" if methods else None


def check_exact(task: nn.Module, name: str) -> None:
    """InputError if the weights are quantized: what looks at them needs the exact ones."""
    if (method := quantization(task)) is not None:
        raise InputError(
            f"{name}: its weights are {method}, and they are looked at: use the model that it was "
            "made from"
        )


def count_parameters(task: Task) -> int:
    """The number of its weights, quantized or not."""
    whole = task if quantization(task) is None else outline(task.backbone.config, task.spec)
    return sum(parameter.numel() for parameter in whole.parameters())


def is_method(name: object) -> TypeGuard[Method]:
    return name in METHODS


def read_method(name: object) -> Method:
    """ConfigError if there is no such method."""
    if not is_method(name):
        raise ConfigError(f"quantize({shown(name)}): write {' or '.join(map(repr, METHODS))}")
    return name


def _rounded(weight: Tensor, method: Method) -> tuple[Tensor, Tensor]:
    """The weights as they are stored, and their scales; without memory, only their shapes."""
    outputs, inputs = weight.shape
    if weight.is_meta and method == "int4":
        scale = weight.new_empty(outputs, inputs // GROUP, 2, dtype=torch.bfloat16)
        return weight.new_empty(outputs, inputs // 2, dtype=torch.uint8), scale
    if weight.is_meta:
        scale = weight.new_empty(outputs, 1, dtype=torch.float32)
        return weight.new_empty(outputs, inputs, dtype=torch.int8), scale
    if method == "int8":
        return round_int8(weight.float())
    values, scale = round_int4(weight.float())
    return nibbles(values), scale
