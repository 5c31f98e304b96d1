"""How one query of one head is computed, step by step as on the slides."""

from __future__ import annotations

import math

from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass.stacks import StackName, place
from glassformer.model import Attention
from glassformer.model.attention import AttentionSpec, visible
from glassformer.precision import widen
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import AttentionRow, Numbers, Vector, VectorRows

SHOWN = 8  # entries of a vector


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
    """Every vector on the way from the embedding to the block's output, for one query."""
    weights, masked = _line(run, stack, layer, head, query)
    at = place(run.trace, stack, layer, head)  # decoder.blocks.3.cross
    attention = run.loaded_model.task.backbone.get_submodule(at)
    assert isinstance(attention, Attention)  # noqa: S101 - place checks it
    block, side = at.rpartition(".")[0], at.partition(".")[0]
    q = _of(run, f"{at}.q")[query, head]  # (D,)
    group = attention.heads // attention.key_heads
    k, v = (_of(run, f"{at}.{name}")[:, head // group] for name in "kv")  # (S, D)
    dots = k @ q
    bias = run.trace.get(f"{side}.relative.bias") if not attention.cross else None
    names = _names(run, block, layer, at)
    before, x, residual, norm = (_of(run, name) for name in names)
    segment, position = (
        run.trace.get(f"{side}.embedding.{name}") for name in ("segments", "positions")
    )
    return Numbers(
        token=run.tokens["encoder" if side == "encoder" else "decoder"][query].text,
        embedding=_cut(_of(run, f"{side}.embedding.tokens")[query]),
        segment=None if segment is None else _cut(segment[query]),
        position=None if position is None else _cut(position[query]),
        before=_cut(before[query]),
        x=_cut(x[query]),
        q=_cut(q),
        k=VectorRows(values=k[:, :SHOWN].tolist(), length=k.shape[1]),
        v=VectorRows(values=v[:, :SHOWN].tolist(), length=v.shape[1]),
        scores=dots.tolist(),
        scaled=(dots * attention.scale).tolist(),
        bias=None if bias is None else widen(bias[head, query]).tolist(),
        masked=_or_none(masked),
        weights=weights.tolist(),
        mixed=_cut(_of(run, f"{at}.mixed")[query, head]),
        out=_cut(_added(run, at)[query]),
        residual=_cut(residual[query]),
        norm=_cut(norm[query]),
        mlp=_cut(_added(run, f"{block}.mlp")[query]),
        block=_cut(_of(run, f"{block}.out")[query]),
        scale=1 / attention.scale,
        formulas=_formulas(run, attention, names, bias is not None),
    )


def _names(run: RecordedRun, block: str, layer: int, at: str) -> tuple[str, str, str, str]:
    """Trace names of: block input, input of W_Q, residual sum, input of the next part.

    post-norm  before = x ── attention ──(+) residual ── norm
    pre-norm   before ── norm: x ── attention ──(+) residual ── norm of the next part
    """
    side, crossing = at.partition(".")[0], at.endswith(".cross")
    input_name = f"{side}.blocks.{layer - 1}.out" if layer else f"{side}.embedding.out"
    part = "cross" if crossing else "attention"
    summed, normed = f"{block}.{part}_sum", f"{block}.{part}_norm.out"
    if run.trace.config["norm_place"] == "post":
        before = f"{block}.attention_norm.out" if crossing else input_name
        return before, before, summed, normed
    before = f"{block}.attention_sum" if crossing else input_name
    cross_norm = () if crossing else (f"{block}.cross_norm.out",)
    after = (*cross_norm, f"{block}.mlp_norm.out", summed)  # some blocks have no norm there
    nearest = next(name for name in after if name in run.trace)
    return before, normed if normed in run.trace else before, summed, nearest


def _added(run: RecordedRun, part: str) -> Tensor:
    """What attention or the MLP adds to its input: in some blocks the output of a norm."""
    normed = f"{part}_out_norm.out"
    return _of(run, normed if normed in run.trace else f"{part}.out")


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


def _formulas(
    run: RecordedRun, attention: Attention, names: tuple[str, str, str, str], bias: bool
) -> dict[str, str]:
    config, (before, x, residual, norm) = run.trace.config, names
    source = "memory" if attention.cross else "x"
    projections = {"q": "W_Q x", "k": f"W_K {source}"}
    if config.get("qk_norm"):
        projections = {name: f"norm({text})" for name, text in projections.items()}
    if config["position"] == "rotary" and attention.turns:
        projections = {name: f"turn({text})" for name, text in projections.items()}
    width = config.get("score_width")
    root = "√d" if width in (None, config["head_width"]) else f"√{width}"
    cap = config.get("score_cap")
    limited = "scaled" if cap is None else f"{cap:g} tanh(scaled / {cap:g})"
    out, mlp = "W_O [mixed of all heads]", "W_2 act(W_1 norm)"
    if config["gated"]:
        mlp = "W_2 (act(W_g norm) · W_1 norm)"
    if config["norm_place"] in ("branch", "sandwich"):
        out, mlp = f"norm({out})", f"norm({mlp})"
    reads = "before" if config.get("parallel") else "residual"
    return {
        "x": "before" if x == before else "norm(before)",
        **projections,
        "v": f"W_V {source}",
        "scores": "q · k",
        "scaled": f"scores / {root}" if config["scaled"] else "scores",
        "masked": (f"{limited} + bias" if bias else limited) + ", or −∞ where it may not look",
        "weights": "softmax(masked)",
        "mixed": "Σ weights v",
        "out": out,
        "residual": "before + out",
        "norm": reads if norm == residual else f"norm({reads})",
        "mlp": mlp,
    }


def _of(run: RecordedRun, name: str) -> Tensor:
    return widen(run.trace[name]).cpu()


def _cut(vector: Tensor) -> Vector:
    return Vector(values=widen(vector)[:SHOWN].tolist(), length=vector.shape[0])


def _or_none(values: Tensor) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
