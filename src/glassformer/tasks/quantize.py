"""int8 and int4 weights in the place of those of the linear layers."""

from __future__ import annotations

from typing import Any, Self, TypeGuard

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, shown
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
        values, scale = _rounded(weight.detach().float(), self.method)
        self.register_buffer("weight", nibbles(values) if self.method == "int4" else values)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.pack()

    def pack(self) -> None:
        """Bring the weights into the layout of the kernel, after they have changed or moved."""
        values = from_nibbles(self.weight) if self.method == "int4" else self.weight
        self.product = product(self.method, values, self.scale)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        scale = self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.scale = scale.to(self.weight.device)  # float32 in every dtype of the model
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
    return round_int4(weight) if method == "int4" else round_int8(weight)
