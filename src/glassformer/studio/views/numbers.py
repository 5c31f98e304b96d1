"""How one query of one head is computed, step by step as on the slides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass.stacks import StackName, place
from glassformer.model import Attention
from glassformer.model.attention import AttentionSpec, visible
from glassformer.model.stack import Stack
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import (
    AttentionRow,
    Numbers,
    NumbersStep,
    Side,
)
from glassformer.studio.views.encode import significant
from glassformer.studio.views.formulas import NAMES, HeadPlace, head_steps

DIGITS = 8  # of each number: enough to compute the formulas again


def attention_row(
    run: RecordedRun, stack: StackName, layer: int, head: int, query: int
) -> AttentionRow:
    """The softmax's output and input for one query."""
    at = place(run.trace, stack, layer, head)
    if f"{at}.scores" not in run.trace:  # recorded without them
        return AttentionRow(weights=_at(_of(run, f"{at}.weights")[head], query).tolist(), scores=[])
    weights, scores = _line(run, stack, layer, head, query)
    return AttentionRow(weights=weights.tolist(), scores=_or_none(scores))


def numbers(run: RecordedRun, stack: StackName, layer: int, head: int, query: int) -> Numbers:
    """Every vector on the way from the layer's input to its output, for one query."""
    weights, masked = _line(run, stack, layer, head, query)
    name, at = head_place(run, stack, layer, head, query)
    side, attention = _side(stack), at.attention
    group = attention.heads // attention.key_heads
    q = _of(run, f"{name}.q")[query, head]  # (D,)
    k, v = (_of(run, f"{name}.{part}")[:, head // group] for part in "kv")  # (S, D)
    own = "relative" if at.stack.relative_layers is None else f"relative_layers.{layer}"
    bias = None if attention.cross else run.trace.get(f"{side}.{own}.bias")
    if attention.disentangled:
        bias = run.trace[f"{name}.content_to_position"] + run.trace[f"{name}.position_to_content"]
    steps = head_steps(at)
    vectors = {
        "q": q,
        "z": _of(run, f"{name}.mixed")[query, head],
        **{each: rows[query] for each, rows in stream_vectors(run, at, name, steps).items()},
    }
    return Numbers(
        token=run.tokens[side][query].text,
        steps=steps,
        vectors={each: significant(vector, DIGITS) for each, vector in vectors.items()},
        names={**{each: NAMES[each] for each in vectors if each in NAMES}, **_layer_before(layer)},
        k=significant(k, DIGITS),
        v=significant(v, DIGITS),
        scores=(k @ q).tolist(),
        scaled=((k @ q) * attention.scale).tolist(),
        bias=None if bias is None else widen(bias[head, query]).tolist(),
        masked=_or_none(masked),
        weights=weights.tolist(),
        width=q.shape[0],
        scale=1 / attention.scale,
    )


def head_place(
    run: RecordedRun, stack: StackName, layer: int, head: int, query: int
) -> tuple[str, HeadPlace]:
    """The name of a head's attention, decoder.blocks.3.cross, and where that is in the model."""
    name, side = place(run.trace, stack, layer, head), _side(stack)
    module = run.loaded_model.task.backbone.get_submodule(side)
    assert isinstance(module, Stack)  # noqa: S101 - only stacks have heads
    attention = module.get_submodule(name.partition(".")[2])
    assert isinstance(attention, Attention)  # noqa: S101 - place checks it
    patches = {(at, deep, token) for at, deep, token, _ in run.request.patches}
    at = HeadPlace(
        module, layer, attention,
        off=(stack, layer, head) in run.request.off, patched=(side, layer, query) in patches,
        units_off=tuple(unit for *at, unit in run.request.units if at == [side, layer]),
    )  # fmt: skip
    return name, at


def _side(stack: StackName) -> Side:
    return "encoder" if stack == "encoder" else "decoder"


def _layer_before(layer: int) -> dict[str, str]:
    return {f"y_{layer - 1}": f"output of layer {layer - 1}"} if layer else {}


def stream_vectors(
    run: RecordedRun, at: HeadPlace, name: str, steps: Sequence[NumbersStep]
) -> dict[str, Tensor]:  # (T, C) each
    """The vectors of the residual stream that the steps show."""
    block, side = name.rpartition(".")[0], name.partition(".")[0]
    part = name.rpartition(".")[2]
    before = f"{side}.blocks.{at.layer - 1}.out" if at.layer else f"{side}.embedding.out"
    if at.attention.cross:
        before = f"{block}.attention_{'norm.out' if at.block.post else 'sum'}"
    norm = part if at.block.post else "cross" if at.crosses_later else "mlp"
    summed = before if at.block.parallel else f"{block}.{part}_sum"
    tensors = {
        "token": f"{side}.embedding.tokens",
        "segment": f"{side}.embedding.segments",
        "position": f"{side}.embedding.positions",
        "n_e": f"{side}.embedding.norm.out",
        "h": before,
        "x": before if at.first_norm is None else f"{block}.{part}_norm.out",
        "o": f"{name}.out",
        "r": f"{block}.{part}_sum",
        "n": summed if at.next_norm is None else f"{block}.{norm}_norm.out",
        "m": f"{block}.mlp.out",
        "p": f"{name}_out_norm.out",
        "p_mlp": f"{block}.mlp_out_norm.out",
        "y": f"{block}.out",
        "y_other": f"{block}.out",
        f"y_{at.layer - 1}": before,
        "r_self": before,
        "n_self": before,
        "r_cross": f"{block}.cross_sum",
        "n_cross": f"{block}.cross_norm.out",
        "n_mlp": f"{block}.mlp_norm.out",
        "r_mlp": f"{block}.mlp_sum",
    }
    used = dict.fromkeys(each for step in steps for each in step.shows)
    vectors = {each: _of(run, tensors[each]) for each in used if each in tensors}
    if "e" in used:
        parts = [vectors[each] for each in ("token", "segment", "position") if each in used]
        vectors["e"] = torch.stack(parts).sum(0)
    return vectors


def _line(
    run: RecordedRun, stack: StackName, layer: int, head: int, query: int
) -> tuple[Tensor, Tensor]:  # (S,), (S,)
    """One row of the weights, and of the masked scores that they come from."""
    at = place(run.trace, stack, layer, head)
    weights, scores = (_of(run, f"{at}.{name}")[head] for name in ("weights", "scores"))
    T, S = weights.shape
    masked = _at(scores, query)
    if run.model is None:
        return weights[query], masked.masked_fill(weights[query] == 0, -math.inf)
    attention = run.model.task.backbone.get_submodule(at)
    assert isinstance(attention, Attention)  # noqa: S101 - place checks it
    spec = AttentionSpec(causal=stack == "decoder", window=attention.window)
    seen = visible(T, S, None, spec, scores.device)
    return weights[query], masked if seen is None else masked.masked_fill(
        ~seen[0, 0, query], -math.inf
    )


def _at(rows: Tensor, query: int) -> Tensor:
    if not 0 <= query < len(rows):
        raise InputError(f"token {query}: this text has tokens 0 to {len(rows) - 1}")
    return rows[query]


def _of(run: RecordedRun, name: str) -> Tensor:
    return widen(run.trace[name]).cpu()


def _or_none(values: Tensor) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
