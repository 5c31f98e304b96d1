"""Which attentions a trace holds, and where a token's vector can be met on its way."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.glass.trace import Trace
from glassformer.precision import widen

# A lone attention, as in the lecture's toy, counts as a decoder of one layer.
ATTENTION = re.compile(r"(?:(encoder|decoder)\.blocks\.\d+\.)?(attention|cross)\.weights")
StackName = Literal["encoder", "decoder", "cross"]  # cross: from the written text to the read one
NAMES: tuple[StackName, ...] = ("encoder", "decoder", "cross")


class TraceShape(NamedTuple):
    layers: int
    heads: int
    T: int  # queries
    S: int  # keys


def attentions(trace: Trace, stack: str) -> list[str]:
    """Where the attentions of a stack are: "decoder.blocks.0.cross", … in order."""
    found: dict[str, list[str]] = {name: [] for name in NAMES}
    for name in trace:
        match = ATTENTION.fullmatch(name)
        if match is not None:
            home = "cross" if match[2] == "cross" else match[1] or "decoder"
            found[home].append(name.removesuffix(".weights"))
    if not found.get(stack):
        held = " or ".join(repr(name) for name in NAMES if found[name])
        write = f"write {held}" if held else 'record with keep="*.weights", or with all'
        raise ConfigError(f"stack = {stack!r}: this trace has no weights of it: {write}")
    return found[stack]


def place(trace: Trace, stack: str, layer: int, head: int | None = None) -> str:
    """Where the attention of one layer is, if there is such a layer, with such a head."""
    places = attentions(trace, stack)
    heads = trace[f"{places[0]}.weights"].shape[0]
    for name, value, count in (("layer", layer, len(places)), ("head", head, heads)):
        if value is not None and not 0 <= value < count:
            raise ConfigError(f"{name} {value}: this {stack} has {name}s 0 to {count - 1}")
    return places[layer]


def stacks(trace: Trace) -> dict[StackName, TraceShape]:
    """The stacks whose weights the trace holds, and their sizes.

    "encoder" and "decoder" look at their own text, "cross" from the decoder's at the encoder's.
    """
    found: dict[StackName, TraceShape] = {}
    for stack in NAMES:
        try:
            places = attentions(trace, stack)
        except ConfigError:
            continue
        found[stack] = TraceShape(len(places), *trace[f"{places[0]}.weights"].shape)
    return found


def main_stack(trace: Trace) -> str:
    """The one that answers: a decoder where there is one."""
    found = stacks(trace)
    return "decoder" if "decoder" in found else next(iter(found), "encoder")


def weights(trace: Trace, stack: str) -> Tensor:  # (L, H, T, S)
    """How much each query looks at each key, for all layers and heads; rows sum to one."""
    return torch.stack([widen(trace[f"{place}.weights"]) for place in attentions(trace, stack)])


def sides(trace: Trace, stack: str) -> tuple[list[str], list[str]]:
    """The tokens that ask and the tokens that are asked: rows and columns of the weights."""
    read = trace.source_tokens or trace.tokens
    return (read if stack == "encoder" else trace.tokens), (
        trace.tokens if stack == "decoder" else read
    )


def stream(trace: Trace, stack: str, *, inside: bool = False) -> dict[str, Tensor]:
    """A token's vectors on their way through a stack, by name: (T, C) each.

    What the embedding gives and what each block hands on; `inside` adds what stands between a
    block's parts. In a post-norm block that is what comes out of the norm.
    """
    post = trace.config.get("norm_place") == "post"
    parts = ("attention_norm.out", "cross_norm.out") if post else ("attention_sum", "cross_sum")
    between = "|".join(map(re.escape, parts if inside else ()))
    wanted = re.compile(rf"{stack}\.(embedding\.out|blocks\.\d+\.({between}|out))")
    found = {name: widen(value) for name, value in trace.items() if wanted.fullmatch(name)}
    if not found:
        raise ConfigError(
            f"this trace has no vectors of a stack {stack!r}: record all, "
            f'or with keep=("{stack}.embedding.out", "{stack}.blocks.*.out")'
        )
    return found
