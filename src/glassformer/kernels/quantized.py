"""Products with int8 and int4 weights on a CPU.

    int8   W ≈ scale · Q    Q from −119 to 119, a scale for each row
    int4   W ≈ scale · Q    Q from −8 to 7, a scale for each 32 numbers of a row

A decoding step reads every weight once, so fewer bytes are a faster step. Several kernels compute
such a product, and which is fast depends on the processor: they are tried once in a process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

Method = Literal["int8", "int4"]
METHODS: tuple[Method, ...] = get_args(Method)
MOST_INT8 = 119  # 16 · 7 + 7: the most that two 4-bit halves hold
MOST_INPUT = 127
GROUP = 32  # numbers of a row that share a scale of int4
TRIED = (1, 512, 512)  # rows, inputs and outputs of the product that is measured

Product: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]  # (n, in), bias → (n, out)
Kernel: TypeAlias = Callable[[Tensor, Tensor], Product]  # Q (out, in), scale (out, groups)


def product(method: Method, values: Tensor, scale: Tensor) -> Product:
    """x, bias ↦ x Wᵀ + bias by the fastest kernel of this machine."""
    if values.device.type != "cpu":
        return plain(values, scale)
    return KERNELS[method][fastest(method)](values, scale)


def plain(values: Tensor, scale: Tensor) -> Product:
    """Multiply out the weights at each call: on every device, and the reference for the others."""

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, dequantized(values, scale).to(x.dtype), bias)

    return multiply


def dequantized(values: Tensor, scale: Tensor) -> Tensor:  # (out, in), (out, groups) → (out, in)
    return (values.unflatten(1, (scale.shape[1], -1)) * scale[:, :, None]).flatten(1)


def integer(values: Tensor, scale: Tensor) -> Product:
    """int8 × int8 with exact sums. The input is rounded, too, with a scale for each token, so a
    token has the same output alone and in a batch."""
    transposed, factor = values.T, scale[:, 0] / MOST_INPUT

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        x = x.float()
        largest = torch.linalg.vector_norm(x, torch.inf, 1, keepdim=True).clamp_(min=1e-12)
        rounded = (x * (MOST_INPUT / largest)).round_().to(torch.int8)
        y = torch._int_mm(rounded, transposed) * factor
        return y.mul_(largest) if bias is None else torch.addcmul(bias, y, largest)

    return multiply


def int4_pack(values: Tensor, scale: Tensor) -> Product:
    """torch's kernel for groups of int4 weights on x86; the input is rounded to bfloat16."""
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.int() + 8, 1)
    pairs = torch.stack([scale, torch.zeros_like(scale)], -1).transpose(0, 1)
    pairs = pairs.contiguous().bfloat16()  # (groups, out, 2) scale and offset

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(x.bfloat16(), packed, GROUP, pairs)
        return y.float() if bias is None else y + bias

    return multiply


def dynamic_int4(values: Tensor, scale: Tensor) -> Product:
    """torch's kernel for int4 weights on ARM, which rounds the input to int8, token by token."""
    (outputs, inputs), group = values.shape, values.shape[1] // scale.shape[1]
    scale = scale if group == inputs else scale.bfloat16()
    packed = torch.ops.aten._dyn_quant_pack_4bit_weight(
        nibbles(values), scale.contiguous(), None, group, inputs, outputs
    )

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        y: Tensor = torch.ops.aten._dyn_quant_matmul_4bit(x.float(), packed, group, inputs, outputs)
        return y if bias is None else y + bias

    return multiply


def two_halves(values: Tensor, scale: Tensor) -> Product:
    """int8 as two products with int4: Q = 16 · high + low."""
    high = (values.int() + 8) // 16
    low = values.int() - 16 * high
    upper = dynamic_int4(high.to(torch.int8), 16 * scale)
    lower = dynamic_int4(low.to(torch.int8), scale)
    return lambda x, bias: lower(x, bias).add_(upper(x, None))


KERNELS: Mapping[Method, Mapping[str, Kernel]] = {
    "int8": {"integer": integer, "two halves": two_halves, "plain": plain},
    "int4": {"int4 pack": int4_pack, "dynamic int4": dynamic_int4, "plain": plain},
}


@cache
def fastest(method: Method) -> str:
    """The name of the fastest kernel of this machine, measured once in a process."""
    return min(times := measured(method), key=lambda name: times[name])


def measured(method: Method) -> dict[str, float]:
    """The seconds of one product with each kernel that works here."""
    rows, inputs, outputs = TRIED
    values = torch.zeros(outputs, inputs, dtype=torch.int8)
    scale = torch.ones(outputs, 1 if method == "int8" else inputs // GROUP)
    x, times = torch.ones(rows, inputs), {}
    for name, kernel in KERNELS[method].items():
        try:
            multiply = kernel(values, scale)
            multiply(x, None)
        except (AttributeError, NotImplementedError, RuntimeError):  # not in this torch
            continue
        times[name] = min(_seconds(multiply, x) for _ in range(5))
    return times


def _seconds(multiply: Product, x: Tensor) -> float:
    begin = time.perf_counter()
    multiply(x, None)
    return time.perf_counter() - begin


def round_int8(weight: Tensor) -> tuple[Tensor, Tensor]:  # (out, in) → (out, in), (out, 1)
    """The nearest integers, with the largest of each row at ±119."""
    scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-12) / MOST_INT8
    return (weight / scale).round().to(torch.int8), scale


def round_int4(weight: Tensor) -> tuple[Tensor, Tensor]:  # (out, in) → (out, in), (out, groups)
    """The integers and scale of each group with the least squared error of several trials.

    A trial puts the largest number of a group at −8 or a little beyond, rounds to the nearest
    integers, and fits the scale to them by least squares.
    """
    groups = weight.unflatten(1, (-1, GROUP))  # (out, groups, 32)
    largest = groups.gather(2, groups.abs().argmax(2, keepdim=True))
    best = torch.full_like(largest, torch.inf)
    values, scale = torch.zeros_like(groups), torch.zeros_like(largest)
    for end in (-8.0, -7.6, -7.2, -8.6, -9.2, 7.0):
        guess = largest / end
        q = (groups / torch.where(guess == 0, 1.0, guess)).round_().clamp_(-8, 7)
        fitted = (q * groups).sum(2, keepdim=True) / (q * q).sum(2, keepdim=True).clamp_(min=1)
        error = (q * fitted - groups).square_().sum(2, keepdim=True)
        better = error < best
        best, scale = torch.where(better, error, best), torch.where(better, fitted, scale)
        values = torch.where(better, q, values)
    return values.flatten(1).to(torch.int8), scale[:, :, 0]


def nibbles(values: Tensor) -> Tensor:  # (out, in) → (out, in / 2)
    """Two int4 in a byte: the even columns in its low half."""
    unsigned = (values + 8).to(torch.uint8)
    return unsigned[:, ::2] | (unsigned[:, 1::2] << 4)


def from_nibbles(packed: Tensor) -> Tensor:  # (out, in / 2) → (out, in)
    pairs = torch.stack([packed & 15, packed >> 4], 2)
    return pairs.flatten(1).to(torch.int8) - 8
