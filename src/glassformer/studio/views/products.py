"""A linear map of Numbers as matrix times vector: W x + b, one row of W at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pydantic import JsonValue
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.glass import stream
from glassformer.glass.stacks import StackName
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import MatrixProduct
from glassformer.studio.views.encode import significant
from glassformer.studio.views.formulas import HeadPlace, head_steps
from glassformer.studio.views.layers import check_token
from glassformer.studio.views.numbers import DIGITS, head_place, stream_vectors

ROWS, COLUMNS = 64, 128  # the most cells of a matrix's picture
ZERO = 128  # the byte of 0


@dataclass(frozen=True, eq=False)
class LinearMap:
    """W of one head or layer, and the vector that it is multiplied with."""

    weight: Tensor  # (rows, columns)
    bias: Tensor | None
    x: Tensor
    key: int | None = None  # the token of x, if not the query


def product(
    run: RecordedRun, stack: StackName, layer: int, head: int, query: int, name: str, row: int
) -> MatrixProduct:
    """W x + b, and how its entry `row` comes about."""
    matrix = linear_map(run, stack, layer, head, query, name)
    rows = matrix.weight.shape[0]
    if row < 0:
        raise InputError(f"row {row}: {name} has rows 0 to {rows - 1}")
    row = min(row, rows - 1)  # an entry that is chosen in a longer vector
    return MatrixProduct(
        rows=rows,
        row=row,
        x=significant(matrix.x, DIGITS),
        y=significant(F.linear(matrix.x, matrix.weight, matrix.bias), DIGITS),
        weights=significant(matrix.weight[row], DIGITS),
        bias=None if matrix.bias is None else float(matrix.bias[row]),
        key=matrix.key,
    )


def matrix_picture(
    run: RecordedRun, stack: StackName, layer: int, head: int, name: str
) -> Tensor:  # (r, c) uint8
    """A matrix as signed bytes, 128 is 0; of a large one each cell is its largest entry."""
    weight = linear_map(run, stack, layer, head, 0, name).weight
    cells = _largest(_largest(weight, ROWS).T, COLUMNS).T
    most = cells.abs().max().clamp(min=1e-30)
    return (ZERO + (ZERO - 1) * cells / most).round().to(torch.uint8)


def linear_map(
    run: RecordedRun, stack: StackName, layer: int, head: int, query: int, name: str
) -> LinearMap:
    """The map that the formulas call W_Q, W_1, …; InputError if this head has none of that name."""
    check_token(run, stack, query)
    at_name, at = head_place(run, stack, layer, head, query)
    steps = head_steps(at)
    operand = next(
        (part for step in steps for each in step.formulas if (part := _operand(each, name))), None
    )
    if operand is None:
        raise InputError(f"{name}: there is no such matrix in the formulas of this head")
    module = _module(at, name)
    weight = widen(module.weight.detach()).cpu()
    bias = None if module.bias is None else widen(module.bias.detach()).cpu()
    if name in ("W_Q", "W_K", "W_V"):
        heads = at.attention.heads if name == "W_Q" else at.attention.key_heads
        own = head // (at.attention.heads // heads)
        weight = weight.unflatten(0, (heads, -1))[own]
        bias = None if bias is None else bias.unflatten(0, (heads, -1))[own]
    vectors = stream_vectors(run, at, at_name, steps)
    if name in ("W_K", "W_V"):
        key = int(run.trace[f"{at_name}.weights"][head, query].argmax())
        rows = _memory(run) if at.attention.cross else vectors["x"]
        return LinearMap(weight, bias, rows[key], key)
    if isinstance(operand, str):
        return LinearMap(weight, bias, vectors[operand][query])
    inside = f"{at_name}.mixed" if name == "W_O" else f"{at_name.rpartition('.')[0]}.mlp.hidden"
    return LinearMap(weight, bias, widen(run.trace[inside])[query].flatten().cpu())


def _operand(formula: JsonValue, name: str) -> JsonValue:
    """What a matrix is multiplied with in a formula."""
    if not isinstance(formula, list):
        return None
    if formula[:2] == ["of", name]:
        return formula[2]
    return next((part for each in formula if (part := _operand(each, name))), None)


def _module(at: HeadPlace, name: str) -> nn.Linear:
    attention, mlp = at.attention, at.block.mlp
    modules = {
        "W_Q": attention.query, "W_K": attention.key, "W_V": attention.value,
        "W_O": attention.output, "W_1": mlp.up, "W_g": mlp.gate, "W_2": mlp.down,
        "W_E": at.stack.embedding.project,
    }  # fmt: skip
    module = modules[name]
    assert isinstance(module, nn.Linear)  # noqa: S101 - the formulas name it
    return module


def _memory(run: RecordedRun) -> Tensor:  # (S, C)
    """The encoder's output."""
    final = run.trace.get("encoder.norm.out")
    return (
        list(stream(run.trace, "encoder").values())[-1] if final is None else widen(final)
    ).cpu()


def _largest(rows: Tensor, most: int) -> Tensor:  # (R, C) → (≤ most, C)
    """Neighbouring rows become one: of each column the entry that is largest, whatever its sign."""
    if len(rows) <= most:
        return rows
    parts = rows.tensor_split(most)
    return torch.stack([p.gather(0, p.abs().argmax(0, keepdim=True))[0] for p in parts])
