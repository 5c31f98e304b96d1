"""The steps of one attention head and its block, with the formulas of this model's architecture.

A formula is a nested list, ["=", "r", ["+", "h", "o"]]: the page draws it, and the tests compute
it. Names are those of the vectors that are shown, and W, b, γ, β, ε for the weights. _j and _i
stand for every key.

    h ──(norm)── x ── q, k, v ── s ── u ── w ── a ── z ── o        r = h + o ── n ── m ── y
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import JsonValue
from torch import nn

from glassformer.config import Activation
from glassformer.model import Attention
from glassformer.model.block import ACTIVATIONS, MLP, Block
from glassformer.model.norm import Norm
from glassformer.model.stack import Stack
from glassformer.studio.schemas import NumbersStep

ACTIVATION_NAMES: dict[Activation, str] = {
    "relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU_tanh", "silu": "SiLU",
}  # fmt: skip
NAMES = {  # what the vectors are
    "token": "token embedding",
    "segment": "segment embedding",
    "position": "position embedding",
    "e": "sum of the embeddings",
    "n_e": "normed",
    "h": "residual stream",
    "x": "input of the head",
    "q": "query",
    "z": "output of the head",
    "o": "output projection",
    "p": "normed",
    "r": "residual stream",
    "n": "normed",
    "m": "output of the MLP",
    "p_mlp": "normed",
    "y": "output of the layer",
    "r_self": "after self-attention",
    "n_self": "after self-attention",
    "r_cross": "after cross-attention",
    "n_cross": "after cross-attention",
    "n_mlp": "normed",
    "r_mlp": "residual stream",
    "y_other": "patched vector",
}


@dataclass(frozen=True)
class HeadPlace:
    """Where a head is, and what an intervention has replaced there."""

    stack: Stack
    layer: int
    attention: Attention
    off: bool = False  # the head
    patched: bool = False  # the block's output at this token
    units_off: tuple[int, ...] = ()  # of this layer's MLP

    @property
    def block(self) -> Block:
        block = self.stack.blocks[self.layer]
        assert isinstance(block, Block)  # noqa: S101
        return block

    @property
    def crosses_later(self) -> bool:
        """Whether cross-attention follows in this block."""
        return self.block.cross is not None and not self.attention.cross

    @property
    def first_norm(self) -> Norm | None:
        """The norm in front of this attention."""
        norm = self.block.cross_norm if self.attention.cross else self.block.attention_norm
        return norm if not self.block.post and isinstance(norm, Norm) else None

    @property
    def out_norm(self) -> Norm | None:
        """The norm of what this attention adds."""
        block = self.block
        norm = block.cross_out_norm if self.attention.cross else block.attention_out_norm
        return norm if isinstance(norm, Norm) else None

    @property
    def next_norm(self) -> Norm | None:
        """The norm after the residual: of this part (post-norm), or of the next (pre-norm)."""
        block = self.block
        norm: nn.Module | None
        if block.post:
            norm = block.cross_norm if self.attention.cross else block.attention_norm
        else:
            norm = block.cross_norm if self.crosses_later else block.mlp_norm
        return norm if isinstance(norm, Norm) else None


def head_steps(at: HeadPlace) -> list[NumbersStep]:
    """All steps from the layer's input to its output."""
    return [
        _input(at), _projections(at), *_scores(at), _mixed(at), _output(at), _residual(at),
        _norm_step(at), _mlp_step(at),
    ]  # fmt: skip


def _step(
    name: str, title: str, text: str, formulas: list[JsonValue], shows: list[str]
) -> NumbersStep:
    return NumbersStep(name=name, title=title, text=text, formulas=formulas, shows=shows)


def _input(at: HeadPlace) -> NumbersStep:
    formulas, shows = _residual_stream(at)
    if at.first_norm is None:
        formulas.append(["=", "x", "h"])
        text = "The head reads the residual stream as it is."
    else:
        formulas.append(["=", "x", normed(at.first_norm, "h")])
        text = f"The head reads the residual stream through the layer's {_kind(at.first_norm)}."
    return _step("input", "Input of the layer", text, formulas, [*shows, "x"])


def _residual_stream(at: HeadPlace) -> tuple[list[JsonValue], list[str]]:
    """Where h comes from: the embeddings, the layer before, or the self-attention before."""
    if at.attention.cross:
        before = "n_self" if at.block.post else "r_self"
        return [["=", "h", before]], [before, "h"]
    if at.layer > 0:
        before = f"y_{at.layer - 1}"
        return [["=", "h", before]], [before, "h"]
    embedding = at.stack.embedding
    placed = embedding.position is not None or embedding.wave is not None
    parts = ["token"]
    parts += ["segment"] if embedding.segment is not None else []
    parts += ["position"] if placed else []
    total: JsonValue = ["+", *parts] if len(parts) > 1 else parts[0]
    if embedding.norm is None and embedding.project is None:
        return [["=", "h", total]], [*parts, "h"]
    formulas: list[JsonValue] = [["=", "e", total]]
    last = "e"
    if embedding.norm is not None:
        target = "h" if embedding.project is None else "n_e"
        formulas.append(["=", target, normed(embedding.norm, "e")])
        last = target
    if embedding.project is not None:
        formulas.append(["=", "h", linear(embedding.project, "E", last)])
    middle = [last] if last not in ("e", "h") else []
    return formulas, [*parts, "e", *middle, "h"]


def _projections(at: HeadPlace) -> NumbersStep:
    attention, cross = at.attention, at.attention.cross
    source = "m_j" if cross else "x_j"
    rotary = at.stack.turns is not None and attention.turns
    q, k = linear(attention.query, "Q", "x"), linear(attention.key, "K", source)
    if attention.query_norm is not None:
        q, k = ["call", "norm_Q", q], ["call", "norm_K", k]
    formulas: list[JsonValue] = [
        ["=", "q", ["call", "RoPE", q] if rotary else q],
        ["=", "k_j", ["call", "RoPE", k] if rotary else k],
        ["=", "v_j", linear(attention.value, "V", source)],
    ]
    text = "Three linear maps: what this token looks for, what each token offers, what it brings."
    if attention.query_norm is not None:
        text += " Queries and keys are normed (QK-norm)."
    text += " Queries and keys are rotated by their positions (RoPE)." if rotary else ""
    text += " m_j are the encoder's outputs." if cross else ""
    return _step("qkv", "Query, key, value", text, formulas, ["x", "q"])


def _scores(at: HeadPlace) -> list[NumbersStep]:
    scaled, cap = at.attention.scale != 1.0, at.attention.cap
    head_width = at.attention.query.out_features // at.attention.heads
    usual = math.isclose(at.attention.scale, head_width**-0.5)
    width = "d" if usual else f"{at.attention.scale**-2:g}"
    capped: JsonValue = "u_j"
    if cap is not None:
        capped = ["scale", f"{cap:g}", ["call", "tanh", ["/", "u_j", f"{cap:g}"]]]
    added: JsonValue = ["+", capped, "b_j"] if _biased(at) else capped
    masked = (at.stack.causal and not at.attention.cross) or at.attention.window is not None
    mask_text = (
        "Where the token may not look the score becomes −∞: softmax leaves nothing of it."
        if masked
        else "This attention has no mask: the token may look everywhere."
    )
    if cap is not None:
        mask_text = f"No score is larger than {cap:g}. " + mask_text
    formulas: list[JsonValue] = [["=", "w_j", ["mask", added] if masked else added]]
    if at.attention.disentangled:
        compared: JsonValue = ["+", ["dot", "q", "k_δ"], ["dot", "q_δ", "k_j"]]
        formulas.insert(0, ["=", "b_j", ["/", compared, ["sqrt", width]]])
        mask_text = (
            "k_δ and q_δ are W_K and W_Q of a learned vector for the distance δ to the key: which "
            "distances this token looks for, and from which each key is to be found. "
        ) + mask_text
    elif _biased(at):
        mask_text = "b_j is a learned number for the distance to the key. " + mask_text
    softmax: JsonValue = ["/", ["exp", "w_j"], ["sum", "i", ["exp", "w_i"]]]
    return [
        _step(
            "scores", "Scores", "The query times every key, summed: how well do they fit?",
            [["=", "s_j", ["dot", "q", "k_j"]]], ["q"],
        ),
        _step(
            "scaled", f"Scale by √{width}" if scaled else "No scaling",
            f"Scores grow with the width d of a head; divided by √{width} they stay in a range "
            "where softmax can learn." if scaled else "This model does not divide its scores.",
            [["=", "u_j", ["/", "s_j", ["sqrt", width]] if scaled else "s_j"]], [],
        ),
        _step(
            "masked", "Bias and mask" if _biased(at) else "Cap and mask" if cap else "Mask",
            mask_text, formulas, ["q"] if at.attention.disentangled else [],
        ),
        _step(
            "weights", "Softmax", "All scores become positive and sum to one: the weights.",
            [["=", "a_j", softmax]], [],
        ),
    ]  # fmt: skip


def _biased(at: HeadPlace) -> bool:
    relative = at.stack.relative is not None or at.stack.relative_layers is not None
    return (relative and not at.attention.cross) or at.attention.disentangled


def _mixed(at: HeadPlace) -> NumbersStep:
    if at.off:
        text = "This head is switched off: nothing of what it found goes on."
        return _step("mixed", "Weighted sum", text, [["=", "z", "0"]], ["z"])
    text = "The values, each in the measure of its weight."
    return _step(
        "mixed", "Weighted sum", text, [["=", "z", ["sum", "j", ["scale", "a_j", "v_j"]]]], ["z"]
    )


def _output(at: HeadPlace) -> NumbersStep:
    heads: JsonValue = ["join", "z_0", f"z_{at.attention.heads - 1}"]
    text = "The outputs of all heads side by side; one more linear map leads back to the width."
    formulas: list[JsonValue] = [["=", "o", linear(at.attention.output, "O", heads)]]
    if at.out_norm is None:
        return _step("out", "Output projection", text, formulas, ["z", "o"])
    formulas.append(["=", "p", normed(at.out_norm, "o")])
    text += " A norm follows, before it is added."
    return _step("out", "Output projection", text, formulas, ["z", "o", "p"])


def _residual(at: HeadPlace) -> NumbersStep:
    added = "o" if at.out_norm is None else "p"
    text = "It is added to the residual stream: a layer only has to say what changes."
    return _step("residual", "Residual", text, [["=", "r", ["+", "h", added]]], ["h", added, "r"])


def _norm_step(at: HeadPlace) -> NumbersStep:
    read = "h" if at.block.parallel else "r"
    if at.next_norm is None:
        text = "The MLP reads the residual stream as it is."
        return _step("norm", "No norm", text, [["=", "n", read]], [read, "n"])
    kind = _kind(at.next_norm)
    reader = "cross-attention" if at.crosses_later else "MLP"
    what = "the layer's input, too, and not the sum," if at.block.parallel else "the sum"
    text = "Post-norm" if at.block.post else f"The {reader} reads {what} through this norm"
    text += {
        "LayerNorm": ": mean 0 and variance 1, then a learned gain.",
        "RMSNorm": ": mean square 1, then a learned gain; the mean is not subtracted.",
    }[kind]
    return _step("norm", kind, text, [["=", "n", normed(at.next_norm, read)]], [read, "n"])


def _mlp_step(at: HeadPlace) -> NumbersStep:
    """The MLP and the end of the block. In a decoder with cross-attention that comes first."""
    block, mlp = at.block, at.block.mlp
    stream, read = ("n", "n") if block.post else ("r", "n")
    formulas: list[JsonValue] = []
    shows = ["n"]
    if at.crosses_later:
        stream, read = ("n_cross", "n_cross") if block.post else ("r_cross", "n_mlp")
        shows = [stream]
        if not block.post and isinstance(block.mlp_norm, Norm):
            formulas.append(["=", "n_mlp", normed(block.mlp_norm, "r_cross")])
            shows.append("n_mlp")
    formulas.append(["=", "m", _mlp(mlp, read, bool(at.units_off))])
    shows += ["m"]
    added = "m"
    if isinstance(block.mlp_out_norm, Norm):
        added = "p_mlp"
        formulas.append(["=", "p_mlp", normed(block.mlp_out_norm, "m")])
        shows.append("p_mlp")
    end: JsonValue = ["+", stream, added]
    if block.post and isinstance(block.mlp_norm, Norm):
        formulas.append(["=", "r_mlp", end])
        shows.append("r_mlp")
        end = normed(block.mlp_norm, "r_mlp")
    elif stream not in shows:
        shows.insert(0, stream)
    if at.patched:
        end = "y_other"
        shows.append("y_other")
    formulas.append(["=", "y", end])
    text = "The same two linear maps for every token, with an activation between them"
    text += " and a gate" if mlp.gate is not None else ""
    text += "; then added to the residual stream."
    if at.units_off:
        named = ", ".join(map(str, at.units_off))
        text += f" on is 0 for the units that are switched off ({named}), and 1 for the others."
    text += " It comes after the cross-attention." if at.crosses_later else ""
    text += " The result is replaced by a vector of another sentence." if at.patched else ""
    title = "Gated MLP" if mlp.gate is not None else "MLP"
    return _step("mlp", title, text, formulas, [*shows, "y"])


def linear(module: nn.Linear, name: str, x: JsonValue) -> JsonValue:
    """W x, and + b where this model has one."""
    product: JsonValue = ["of", f"W_{name}", x]
    return product if module.bias is None else ["+", product, f"b_{name}"]


def normed(norm: Norm, x: str) -> JsonValue:
    """LayerNorm γ (x − mean x) / √(var x + ε) + β, or RMSNorm γ x / √(mean x² + ε)."""
    if not norm.centred:
        size: JsonValue = ["sqrt", ["+", ["call", "mean", ["square", x]], "ε"]]
        gain: JsonValue = ["+", "1", "γ"] if norm.plus_one else "γ"
        return ["times", gain, ["/", x, size]]
    spread: JsonValue = ["sqrt", ["+", ["call", "var", x], "ε"]]
    scaled: JsonValue = ["times", "γ", ["/", ["-", x, ["call", "mean", x]], spread]]
    return scaled if norm.bias is None else ["+", scaled, "β"]


def _mlp(mlp: MLP, x: str, some_off: bool) -> JsonValue:
    name = next(key for key, each in ACTIVATIONS.items() if each is mlp.activation)
    act, inner = ACTIVATION_NAMES[name], linear(mlp.up, "1", x)
    hidden: JsonValue = ["call", act, inner]
    if mlp.gate is not None:
        hidden = ["times", ["call", act, linear(mlp.gate, "g", x)], inner]
    return linear(mlp.down, "2", ["times", "on", hidden] if some_off else hidden)


def _kind(norm: Norm) -> str:
    return "LayerNorm" if norm.centred else "RMSNorm"
