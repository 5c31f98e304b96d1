"""Which attention layers a trace holds, and the residual stream of each stack."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.glass.recorded import RecordedTensors
from glassformer.precision import widen

# A single attention, as in the lecture's toy, counts as a decoder of one layer.
ATTENTION = re.compile(r"(?:(encoder|decoder)\.blocks\.\d+\.)?(attention|cross)\.weights")
StackName = Literal["encoder", "decoder", "cross"]  # cross: from target to source
NAMES: tuple[StackName, ...] = ("encoder", "decoder", "cross")


class TraceShape(NamedTuple):
    layers: int
    heads: int
    T: int  # queries
    S: int  # keys


def attentions(trace: RecordedTensors, stack: str) -> list[str]:
    """The names of a stack's attention modules in order: "decoder.blocks.0.cross", …"""
    names: dict[str, list[str]] = {name: [] for name in NAMES}
    for name in trace:
        match = ATTENTION.fullmatch(name)
        if match is not None:
            home = "cross" if match[2] == "cross" else match[1] or "decoder"
            names[home].append(name.removesuffix(".weights"))
    if not names.get(stack):
        held = " or ".join(repr(name) for name in NAMES if names[name])
        write = f"write {held}" if held else 'record with keep="*.weights", or with all'
        what = (
            "cross-attention, which an encoder-decoder has" if stack == "cross" else "weights of it"
        )
        raise ConfigError(f"stack = {stack!r}: this trace has no {what}: {write}")
    return names[stack]


def place(trace: RecordedTensors, stack: str, layer: int, head: int | None = None) -> str:
    """The name of one layer's attention; ConfigError if there is no such layer or head."""
    places = attentions(trace, stack)
    heads = trace[f"{places[0]}.weights"].shape[0]
    for name, value, count in (("layer", layer, len(places)), ("head", head, heads)):
        if value is not None and not 0 <= value < count:
            raise ConfigError(f"{name} {value}: this {stack} has {name}s 0 to {count - 1}")
    return places[layer]


def stacks(trace: RecordedTensors) -> dict[StackName, TraceShape]:
    """The stacks whose weights the trace holds, and their sizes.

    "encoder" and "decoder" are self-attention, "cross" attends from the decoder to the encoder.
    """
    shapes: dict[StackName, TraceShape] = {}
    for stack in NAMES:
        try:
            places = attentions(trace, stack)
        except ConfigError:
            continue
        shapes[stack] = TraceShape(len(places), *trace[f"{places[0]}.weights"].shape)
    return shapes


def main_stack(trace: RecordedTensors) -> str:
    """The stack that predicts: the decoder, if there is one."""
    names = stacks(trace)
    return "decoder" if "decoder" in names else next(iter(names), "encoder")


def weights(trace: RecordedTensors, stack: str) -> Tensor:  # (L, H, T, S)
    """The attention weights of all layers and heads, from query T to key S; rows sum to one."""
    return torch.stack([widen(trace[f"{place}.weights"]) for place in attentions(trace, stack)])


def sides(trace: RecordedTensors, stack: str) -> tuple[list[str], list[str]]:
    """The tokens of the queries and of the keys: the rows and columns of the weights."""
    source = trace.source_tokens or trace.tokens
    return (source if stack == "encoder" else trace.tokens), (
        trace.tokens if stack == "decoder" else source
    )


def stream(trace: RecordedTensors, stack: str, *, inside: bool = False) -> dict[str, Tensor]:
    """The residual stream of a stack, by name: (T, C) each.

    The output of the embedding and of each block; `inside` adds the points between a block's parts.
    In a post-norm block those are the outputs of its norms.
    """
    post = trace.config.get("norm_place") == "post"
    parts = ("attention_norm.out", "cross_norm.out") if post else ("attention_sum", "cross_sum")
    between = "|".join(map(re.escape, parts if inside else ()))
    pattern = re.compile(rf"{stack}\.(embedding\.out|blocks\.\d+\.({between}|out))")
    vectors = {name: widen(value) for name, value in trace.items() if pattern.fullmatch(name)}
    if not vectors:
        raise ConfigError(
            f"this trace has no vectors of a stack {stack!r}: record all, "
            f'or with keep=("{stack}.embedding.out", "{stack}.blocks.*.out")'
        )
    return vectors
