"""A trace that comes alone, without its model: from a file, or from a notebook.

The file may be anybody's: nothing in it is executed, and what does not fit together is refused.
"""

from __future__ import annotations

import torch

from glassformer.errors import ConfigError, InputError
from glassformer.glass import Trace, sides, stacks
from glassformer.glass.stacks import ATTENTION, attentions, stream
from glassformer.studio.reading import of_pieces
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import (
    Ask,
    ModelRow,
    RunRow,
    Sample,
    Says,
    StackName,
    StackShape,
    StackSize,
    Token,
    Tokens,
)  # fmt: skip

KIND = "trace"
NOTE = "a trace holds one text, as it was recorded"
FAMILIES = ("encoder", "decoder", "seq2seq")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_NAME = 40  # characters


def alone(trace: Trace, id: str) -> RecordedRun:
    """A run that is looked at and never run again."""
    _check(trace)
    names: dict[StackName, list[Token]] = {"decoder": of_pieces(trace.tokens)}
    if trace.source_tokens:
        names = {"encoder": of_pieces(trace.source_tokens), **names}
    elif "decoder" not in stacks(trace):
        names = {"encoder": names["decoder"]}
    shapes = [
        StackShape(name=name, layers=each.layers, heads=each.heads, rows=each.T, columns=each.S)
        for name, each in stacks(trace).items()
    ]
    row = RunRow(run=id, stacks=shapes, tokens=Tokens(queries=names), says=Says(kind="none"))
    return RecordedRun(id, Ask(model=id, text=text(trace)), None, trace, names, row, {}, None)


def text(trace: Trace) -> str:
    read = of_pieces(trace.source_tokens or trace.tokens)
    return " ".join(each.text for each in read if not each.special)


def row_of(run: RecordedRun) -> ModelRow:
    """How it stands among the models."""
    family = run.trace.config.get("family")
    told = text(run.trace)
    return ModelRow(
        id=run.id,
        name=f"trace: {told[:MOST_NAME]}{'…' if len(told) > MOST_NAME else ''}",
        family=family if family in FAMILIES else run.row.stacks[0].name,
        kind=KIND,
        mask=None,
        max_length=len(run.trace.tokens),
        parameters=0,
        stacks=[StackSize(name=s.name, layers=s.layers, heads=s.heads) for s in run.row.stacks],
        samples=[Sample(text=told)],
        note=NOTE,
    )


def _check(trace: Trace) -> None:
    """Weights of all layers, for as many tokens as there are; what else is looked at, as many."""
    if not trace.tokens:
        raise InputError("this trace has no tokens: record a text")
    for name, tensor in trace.items():
        if ATTENTION.fullmatch(name) and tensor.dim() != 3:
            raise InputError(f"{name} is {list(tensor.shape)}: weights are (heads, rows, columns)")
    found = stacks(trace)
    if not found:
        raise InputError("this trace has no weights: record all, or with keep='*.weights'")
    for stack, shape in found.items():
        wanted = (shape.heads, *(len(side) for side in sides(trace, stack)))
        for layer, here in enumerate(attentions(trace, stack)):
            if "blocks" in here and f".{layer}." not in here:
                raise InputError(
                    f"this trace has no weights of the {stack}'s layer {layer}: record all, or "
                    "with keep='*.weights'"
                )
            for name in (f"{here}.weights", f"{here}.scores"):
                _fits(trace, name, wanted)
            if not trace[f"{here}.weights"].isfinite().all():
                raise InputError(f"{here}.weights: not all of them are numbers")
        if stack != "cross":
            _check_vectors(trace, stack, wanted[1])


def _check_vectors(trace: Trace, stack: str, count: int) -> None:
    """Those on a token's way: a row a token, all as wide."""
    try:
        points = stream(trace, stack, inside=True)
    except ConfigError:  # none were recorded
        return
    width = next(iter(points.values())).shape[-1:]
    for name in points:
        _fits(trace, name, (count, *width))


def _fits(trace: Trace, name: str, wanted: tuple[int, ...]) -> None:
    tensor = trace.get(name)
    if tensor is None:
        return
    if tuple(tensor.shape) != wanted:
        raise InputError(f"{name} is {list(tensor.shape)}, and its text asks for {list(wanted)}")
    if tensor.dtype not in FLOATS:
        raise InputError(f"{name} is {tensor.dtype}: write float16, bfloat16, float32 or float64")
