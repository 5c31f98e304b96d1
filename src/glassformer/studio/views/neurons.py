"""The units of an MLP: the entries of act(W_1 x), or with a gate of act(W_g x) · W_1 x."""

from __future__ import annotations

from torch import Tensor

from glassformer.errors import InputError
from glassformer.precision import widen
from glassformer.studio.page_schemas import Neuron, Neurons, UnitActivation
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Side
from glassformer.studio.views.encode import significant

STRONGEST = 5  # units at each token


def neurons(run: RecordedRun, side: Side, layer: int) -> Neurons:
    """The strongest units at every token, by their absolute values."""
    hidden = _hidden(run, side, layer)
    units = hidden.abs().topk(min(STRONGEST, hidden.shape[1]), dim=-1).indices  # (T, some)
    values = significant(hidden.gather(1, units))
    return Neurons(
        width=hidden.shape[1],
        gated=bool(run.trace.config.get("gated")),
        strongest=[
            [UnitActivation(unit=unit, value=value) for unit, value in zip(*pair, strict=True)]
            for pair in zip(units.tolist(), values, strict=True)
        ],
    )


def neuron(run: RecordedRun, side: Side, layer: int, unit: int) -> Neuron:
    """One unit at every token."""
    hidden = _hidden(run, side, layer)
    if not 0 <= unit < hidden.shape[1]:
        raise InputError(f"unit {unit}: this MLP has units 0 to {hidden.shape[1] - 1}")
    return Neuron(values=significant(hidden[:, unit]))


def _hidden(run: RecordedRun, side: Side, layer: int) -> Tensor:  # (T, mlp_width)
    name = f"{side}.blocks.{layer}.mlp.hidden"
    if name in run.trace:
        return widen(run.trace[name]).cpu()
    shape = next((each for each in run.row.stacks if each.name == side), None)
    if shape is None or not 0 <= layer < shape.layers:
        raise InputError(f"this model has no layer {layer} of its {side}")
    raise InputError("This trace holds no units of MLPs: record all, or with keep='*.mlp.hidden'.")
