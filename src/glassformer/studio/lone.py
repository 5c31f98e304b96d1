"""A trace that comes alone, without its model: from a file, or from a notebook.

The file may be anybody's: nothing in it is executed, and what does not fit together is refused.
"""

from __future__ import annotations

from glassformer.errors import InputError
from glassformer.glass import Trace, sides, stacks
from glassformer.glass.stacks import ATTENTION, attentions
from glassformer.studio.reading import of_pieces
from glassformer.studio.runs import Run
from glassformer.studio.wire import (
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
MOST_NAME = 40  # characters


def alone(trace: Trace, id: str) -> Run:
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
    return Run(id, Ask(model=id, text=text(trace)), None, trace, names, row, {}, None)


def text(trace: Trace) -> str:
    read = of_pieces(trace.source_tokens or trace.tokens)
    return " ".join(each.text for each in read if not each.special)


def row_of(run: Run) -> ModelRow:
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
    """Weights of all layers, for as many tokens as there are; where there are scores, as many."""
    for name, tensor in trace.items():
        if ATTENTION.fullmatch(name) and (tensor.dim() != 3 or not tensor.is_floating_point()):
            raise InputError(f"{name} is {list(tensor.shape)}: weights are (heads, rows, columns)")
    found = stacks(trace)
    if not found:
        raise InputError("this trace has no weights: record all, or with keep='*.weights'")
    for stack, shape in found.items():
        wanted = (shape.heads, *(len(side) for side in sides(trace, stack)))
        for here in attentions(trace, stack):
            for name in (f"{here}.weights", f"{here}.scores"):
                tensor = trace.get(name)
                if tensor is not None and tuple(tensor.shape) != wanted:
                    raise InputError(
                        f"{name} is {list(tensor.shape)}, and its text asks for {list(wanted)}"
                    )
            if not trace[f"{here}.weights"].isfinite().all():
                raise InputError(f"{here}.weights: not all of them are numbers")
