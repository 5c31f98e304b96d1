"""A trace without its model: from an uploaded file, or from a notebook.

The file is untrusted: nothing in it is executed, and an inconsistent one is refused.
"""

from __future__ import annotations

import torch

from glassformer.errors import ConfigError, InputError
from glassformer.glass import Trace, sides, stacks
from glassformer.glass.stacks import ATTENTION, StackName, attentions, stream
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import (
    ModelRow,
    Predictions,
    RunRequest,
    RunRow,
    Sample,
    StackShape,
    StackSize,
    Token,
    Tokens,
)
from glassformer.studio.tokenization import tokens_from_pieces

KIND = "trace"
NOTE = "a trace holds one recorded text"
FAMILIES = ("encoder", "decoder", "seq2seq")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MAX_NAME_LENGTH = 40  # characters


def run_from_trace(trace: Trace, id: str) -> RecordedRun:
    """A run without a model; raises InputError if the trace is inconsistent."""
    _check(trace)
    names: dict[StackName, list[Token]] = {"decoder": tokens_from_pieces(trace.tokens)}
    if trace.source_tokens:
        names = {"encoder": tokens_from_pieces(trace.source_tokens), **names}
    elif "decoder" not in stacks(trace):
        names = {"encoder": names["decoder"]}
    shapes = [
        StackShape(name=name, layers=shape.layers, heads=shape.heads, rows=shape.T, columns=shape.S)
        for name, shape in stacks(trace).items()
    ]
    row = RunRow(
        run=id, stacks=shapes, tokens=Tokens(queries=names), predictions=Predictions(kind="none")
    )
    request = RunRequest(model=id, text=_text(trace))
    return RecordedRun(id, request, None, trace, names, row, {}, None)


def _text(trace: Trace) -> str:
    tokens = tokens_from_pieces(trace.source_tokens or trace.tokens)
    return " ".join(token.text for token in tokens if not token.special)


def uploaded_row(run: RecordedRun) -> ModelRow:
    """The entry of an uploaded trace in the list of models."""
    family = run.trace.config.get("family")
    text = _text(run.trace)
    return ModelRow(
        id=run.id,
        name=f"trace: {text[:MAX_NAME_LENGTH]}{'…' if len(text) > MAX_NAME_LENGTH else ''}",
        family=family if family in FAMILIES else run.row.stacks[0].name,
        kind=KIND,
        mask=None,
        max_length=len(run.trace.tokens),
        parameters=0,
        stacks=[StackSize(name=s.name, layers=s.layers, heads=s.heads) for s in run.row.stacks],
        samples=[Sample(text=text)],
        texts=[text],
        note=NOTE,
    )


def _check(trace: Trace) -> None:
    """Every layer has weights, and all tensors that are shown fit the number of tokens."""
    if not trace.tokens:
        raise InputError("this trace has no tokens: record a text")
    for name, tensor in trace.items():
        if ATTENTION.fullmatch(name) and tensor.dim() != 3:
            raise InputError(f"{name} is {list(tensor.shape)}: weights are (heads, rows, columns)")
    shapes = stacks(trace)
    if not shapes:
        raise InputError("this trace has no weights: record all, or with keep='*.weights'")
    for stack, shape in shapes.items():
        expected = (shape.heads, *(len(side) for side in sides(trace, stack)))
        for layer, here in enumerate(attentions(trace, stack)):
            if "blocks" in here and f".{layer}." not in here:
                raise InputError(
                    f"this trace has no weights of the {stack}'s layer {layer}: record all, or "
                    "with keep='*.weights'"
                )
            for name in (f"{here}.weights", f"{here}.scores"):
                _check_shape(trace, name, expected)
            if not trace[f"{here}.weights"].isfinite().all():
                raise InputError(f"{here}.weights: some values are not finite")
    for stack in ("encoder", "decoder"):  # also of a stack without weights
        _check_vectors(trace, stack, len(sides(trace, stack)[0]))
    for name, tensor in trace.items():
        if name.endswith(".mlp.hidden"):
            count = len(sides(trace, name.partition(".")[0])[0])
            _check_shape(trace, name, (count, *tensor.shape[-1:]))


def _check_vectors(trace: Trace, stack: str, count: int) -> None:
    """The residual stream: a row for each token, all of one width."""
    try:
        points = stream(trace, stack, inside=True)
    except ConfigError:  # none were recorded
        return
    width = next(iter(points.values())).shape[-1:]
    for name in points:
        _check_shape(trace, name, (count, *width))


def _check_shape(trace: Trace, name: str, expected: tuple[int, ...]) -> None:
    tensor = trace.get(name)
    if tensor is None:
        return
    if tuple(tensor.shape) != expected:
        raise InputError(f"{name} is {list(tensor.shape)}, but its text needs {list(expected)}")
    if tensor.dtype not in FLOATS:
        raise InputError(f"{name} is {tensor.dtype}: write float16, bfloat16, float32 or float64")
