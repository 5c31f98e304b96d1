"""Products with int8 and int4 weights on a CPU.

    int8   W ≈ scale · Q    Q from −119 to 119, a scale for each row
    int4   W ≈ scale · Q + offset    Q from −8 to 7, both for each 32 numbers of a row

A decoding step reads every weight once, so fewer bytes are a faster step. Several kernels compute
such a product. Ours is the fastest where it works; which of torch's is fast depends on the
processor, so they are tried once in a process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.kernels import native
from glassformer.kernels.operators import operator

Method = Literal["int8", "int4"]
METHODS: tuple[Method, ...] = get_args(Method)
MOST_INT8 = 119  # 16 · 7 + 7: the most that two 4-bit halves hold
MOST_INPUT = 127
OUTLIER = 8  # a number so many times as large as the root mean square of its token
MANY_ROWS = 8  # from so many on, packed weights are faster
GROUP = 32  # numbers of a row that share a scale and an offset of int4
SPREADS = (1.0, 0.95, 0.9, 0.85, 0.8)  # parts of a group's range that are tried
# Rows, inputs and outputs of the product that is measured: at 512 by 512, the time of a call still
# hides that `plain` is ten times slower for the sizes of real models.
TRIED = (1, 1024, 2048)

Product: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]  # (n, in), bias → (n, out)
# Q (out, in), and the scales: int8 (out, 1), int4 (out, groups, 2) with the offsets
Kernel: TypeAlias = Callable[[Tensor, Tensor], Product]


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


def dequantized(values: Tensor, scale: Tensor) -> Tensor:  # (out, in)
    if scale.dim() == 2:
        return values * scale
    lines = scale.float()[:, :, :, None]  # (out, groups, 2, 1)
    groups = values.unflatten(1, (-1, GROUP))
    weight: Tensor = (groups * lines[:, :, 0] + lines[:, :, 1]).flatten(1)
    return weight


def integer(values: Tensor, scale: Tensor) -> Product:
    """int8 × int8 with exact sums: a token has the same output alone and in a batch.

    The input is rounded, too: x ≈ largest / 127 · (high + low / 128), two int8 numbers. `low` is
    left out for tokens without outliers, whose numbers use the range of `high` well.
    """
    transposed, factor = values.T, scale[:, 0] / MOST_INPUT
    packed = _packed(values, factor) if _packs() else None
    # As tensors: wrapping a number takes longer than the operation on one token.
    most = torch.tensor(float(MOST_INPUT))
    least = torch.tensor(MOST_INPUT / OUTLIER * math.sqrt(values.shape[1]))

    def products(q: Tensor) -> Tensor:
        if packed is None or len(q) < MANY_ROWS:
            return torch._int_mm(q, transposed) * factor
        return packed(q)

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        x = x.float()
        largest = x.abs().amax(1, keepdim=True)  # 0: what is computed from 0 / 0 is multiplied by 0
        scaled = x * (most / largest)
        high = scaled.round().to(torch.int8)
        coarse = torch.lt(torch.linalg.vector_norm(scaled, 2, 1), least)
        if torch.compiler.is_compiling():
            y: Tensor = int8_sums(scaled, high, coarse, transposed) * factor
        else:
            y = _with_low(scaled, high, coarse, products)
        y.mul_(largest)
        return y if bias is None else y.add_(bias)

    return multiply


def _with_low(
    scaled: Tensor, high: Tensor, coarse: Tensor, products: Callable[[Tensor], Tensor]
) -> Tensor:
    """The products of `high`, and where it is too coarse, also those of `low`."""
    if not any(coarse.tolist()):
        return products(high)
    rows = coarse.nonzero()[:, 0]
    low = (scaled[rows] - high[rows]).mul_(128).round_().to(torch.int8)
    both = products(torch.cat([high, low]))
    return both[: len(high)].index_add(0, rows, both[len(high) :], alpha=1 / 128)


def _empty_sums(scaled: Tensor, high: Tensor, coarse: Tensor, transposed: Tensor) -> Tensor:
    return scaled.new_empty(len(scaled), transposed.shape[1])


@operator("glassformer::int8_sums", _empty_sums, device="cpu")
def int8_sums(scaled: Tensor, high: Tensor, coarse: Tensor, transposed: Tensor) -> Tensor:
    """For compiled models, where the branch of `_with_low` would end the graph."""
    return _with_low(scaled, high, coarse, lambda q: torch._int_mm(q, transposed).float())


def _packed(values: Tensor, factor: Tensor) -> Callable[[Tensor], Tensor]:
    """q ↦ q Qᵀ · factor by oneDNN, with the weights in the layout of its kernel. It expects bytes
    that are larger by 128 and subtracts it, which is exact, too."""
    weights = torch.ops.onednn.qlinear_prepack(values, None)
    zeros, top_bit = torch.zeros(len(values), dtype=torch.long), torch.tensor(128).byte()
    linear = torch.ops.onednn.qlinear_pointwise.default

    def multiply(q: Tensor) -> Tensor:
        y: Tensor = linear(
            q.view(torch.uint8) ^ top_bit, 1.0, 128, weights, factor, zeros, None, 1.0, 0,
            torch.float32, "none", [], "",
        )  # fmt: skip
        return y

    return multiply


@cache
def _packs() -> bool:
    """Does this torch have the kernel, and is it exact on this processor? Without instructions for
    dot products of bytes, sums of two large products saturate."""
    values = torch.full((32, 64), MOST_INT8, dtype=torch.int8)
    q = torch.full((MANY_ROWS, 64), MOST_INPUT, dtype=torch.int8)
    try:
        y = _packed(values, torch.ones(32))(q)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((y == 64 * MOST_INT8 * MOST_INPUT).all())


def native_int8(values: Tensor, scale: Tensor) -> Product:
    """The sums of `integer`, in a program that is compiled for this processor."""
    linear = native.quantized_linear("int8_linear")
    if values.shape[1] % 4:
        return integer(values, scale)
    return _native(linear, native.packed_int8(values, scale), len(values))


def native_int4(values: Tensor, scale: Tensor) -> Product:
    """int4 weights and an input that is rounded as that of `integer`, in the same program."""
    linear = native.quantized_linear("int4_linear")
    return _native(linear, native.packed_int4(values, scale), len(values))


def _native(linear: native.QuantizedLinear, packed: Tensor, outputs: int) -> Product:
    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        bias = None if bias is None else bias.float().contiguous()
        return linear(x.float().contiguous(), packed, outputs, bias)

    return multiply


def int4_pack(values: Tensor, scale: Tensor) -> Product:
    """torch's kernel for groups of int4 weights on x86; the input is rounded to bfloat16."""
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.int() + 8, 1)
    pairs = scale.transpose(0, 1).contiguous()  # (groups, out, 2)

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x.bfloat16(), packed, GROUP, pairs)
        return y.float() if bias is None else y + bias

    return multiply


def dynamic_int4(values: Tensor, scale: Tensor) -> Product:
    """torch's kernel for int4 weights on ARM, which rounds the input to int8, token by token. It
    knows no offsets: they are multiplied with the sum of each group."""
    multiply = _dynamic(values, scale[:, :, 0])
    offsets = scale[:, :, 1].float()  # (out, groups)

    def with_offsets(x: Tensor, bias: Tensor | None) -> Tensor:
        sums = x.float().unflatten(1, (-1, GROUP)).sum(2)
        return multiply(x, None).add_(F.linear(sums, offsets, bias))

    return with_offsets


def two_halves(values: Tensor, scale: Tensor) -> Product:
    """int8 as two products of the same kernel: Q = 16 · high + low."""
    high = (values.int() + 8) // 16
    low = values.int() - 16 * high
    upper, lower = _dynamic(high, 16 * scale), _dynamic(low, scale)
    return lambda x, bias: lower(x, bias).add_(upper(x, None))


def _dynamic(values: Tensor, scale: Tensor) -> Product:
    """The kernel itself, with a scale for each row or each group of a row."""
    (outputs, inputs), group = values.shape, values.shape[1] // scale.shape[1]
    packed = torch.ops.aten._dyn_quant_pack_4bit_weight(
        nibbles(values), scale.contiguous(), None, group, inputs, outputs
    )

    def multiply(x: Tensor, bias: Tensor | None) -> Tensor:
        y: Tensor = torch.ops.aten._dyn_quant_matmul_4bit(x.float(), packed, group, inputs, outputs)
        return y if bias is None else y + bias

    return multiply


# fmt: off
KERNELS: Mapping[Method, Mapping[str, Kernel]] = {
    "int8": {"native": native_int8, "integer": integer, "two halves": two_halves, "plain": plain},
    "int4": {
        "native": native_int4, "int4 pack": int4_pack, "dynamic int4": dynamic_int4, "plain": plain,
    },
}
# fmt: on


@cache
def fastest(method: Method) -> str:
    """The name of the fastest kernel of this machine: ours, or one that is measured once in a
    process."""
    if native.works():
        return "native"
    return min(times := measured(method), key=lambda name: times[name])


def measured(method: Method) -> dict[str, float]:
    """The seconds of one product with each kernel that works here."""
    rows, inputs, outputs = TRIED
    values = torch.zeros(outputs, inputs, dtype=torch.int8)
    scale = torch.ones(outputs, 1)
    if method == "int4":
        scale = scale.bfloat16()[:, :, None].expand(-1, inputs // GROUP, 2).contiguous()
    x, times = torch.ones(rows, inputs), {}
    for name, kernel in KERNELS[method].items():
        if name == "native" and not native.works():
            continue
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


def round_int4(weight: Tensor) -> tuple[Tensor, Tensor]:  # (out, in) → (out, in), (out, groups, 2)
    """The integers, scale and offset of each group with the least squared error of several trials.

    A trial spreads the integers over a part of the group's range, rounds to the nearest, and fits
    scale and offset to them by least squares.
    """
    groups = weight.unflatten(1, (-1, GROUP))  # (out, groups, 32)
    low, high = groups.aminmax(dim=2, keepdim=True)
    mean = groups.mean(2, keepdim=True)
    best = torch.full_like(mean, torch.inf)
    values, lines = torch.zeros_like(groups), torch.zeros_like(groups[:, :, :2])
    for part in SPREADS:
        step = part * (high - low) / 15
        q = ((groups - part * low) / torch.where(step == 0, 1.0, step)).round_().clamp_(0, 15) - 8
        centred = q - q.mean(2, keepdim=True)
        scale = (centred * groups).sum(2, keepdim=True)
        scale /= centred.square().sum(2, keepdim=True).clamp_(min=1)
        offset = mean - scale * q.mean(2, keepdim=True)
        error = (q * scale + offset - groups).square_().sum(2, keepdim=True)
        better = error < best
        best, values = torch.where(better, error, best), torch.where(better, q, values)
        lines = torch.where(better, torch.cat([scale, offset], 2), lines)
    return values.flatten(1).to(torch.int8), lines.bfloat16()


def nibbles(values: Tensor) -> Tensor:  # (out, in) → (out, in / 2)
    """Two int4 in a byte: the even columns in its low half."""
    unsigned = (values + 8).to(torch.uint8)
    return unsigned[:, ::2] | (unsigned[:, 1::2] << 4)


def from_nibbles(packed: Tensor) -> Tensor:  # (out, in / 2) → (out, in)
    pairs = torch.stack([packed & 15, packed >> 4], 2)
    return pairs.flatten(1).to(torch.int8) - 8
