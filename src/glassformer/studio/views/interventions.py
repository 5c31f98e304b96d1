"""Interventions of a run: ablated heads and units, swapped words, patched vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from glassformer.errors import InputError
from glassformer.glass import Edit, Trace, ablate, patched, swapped, units_off, word_id
from glassformer.glass.stacks import StackName
from glassformer.loaded import Model
from glassformer.studio.schemas import RunRequest, Side, StackSize, Token


def check(request: RunRequest, sides: Sequence[StackName]) -> None:
    """Raise InputError if the request names a side that the model lacks, or no donor text."""
    for side, *_ in (*request.swaps, *request.patches, *request.units):
        if side not in sides:
            raise InputError(f"this model has no {side}: write {' or '.join(sides)}")
    if request.patches and not (request.other or "").strip():
        raise InputError("patches: write the other text that they come from")


def heads_off(request: RunRequest, sizes: Sequence[StackSize]) -> Edit:
    """The ablated heads, as `record` takes them."""
    by_name = {size.name: size for size in sizes}
    heads: dict[str, set[int]] = defaultdict(set)
    for stack, layer, head in request.off:
        size = by_name.get(stack)
        if size is None or not (0 <= layer < size.layers and 0 <= head < size.heads):
            raise InputError(f"off: this model has no head {head} in layer {layer} of its {stack}")
        side, part = ("decoder", "cross") if stack == "cross" else (stack, "attention")
        heads[f"{side}.blocks.{layer}.{part}.mixed"].add(head)
    return {name: ablate(*sorted(numbers)) for name, numbers in heads.items()}


def ablated(model: Model, request: RunRequest, sizes: Sequence[StackSize]) -> Edit:
    """The heads and units that are switched off, as `record` takes them."""
    layers = {size.name: size.layers for size in sizes}
    config = model.task.backbone.config
    widths = {"encoder": config.mlp_width, "decoder": config.output_stack.mlp_width}
    for side, layer, unit in request.units:
        if not (0 <= layer < layers[side] and 0 <= unit < widths[side]):
            raise InputError(f"units: this model has no unit {unit} in layer {layer} of its {side}")
    return {**heads_off(request, sizes), **units_off(request.units)}


def of_side(model: Model, request: RunRequest, side: Side, donor: Callable[[], Trace]) -> Edit:
    """Swapped words and patched vectors of one side; `donor` records the text they come from."""
    words = {place: word for at, place, word in request.swaps if at == side}
    places = [(layer, token, source) for at, layer, token, source in request.patches if at == side]
    return {
        **(swapped(model, side, words) if words else {}),
        **(patched(donor(), side, places) if places else {}),
    }


def swapped_tokens(
    model: Model, request: RunRequest, side: Side, tokens: Sequence[Token]
) -> list[Token]:
    """The tokens of one side with the swapped words in place."""
    swapped = list(tokens)
    for at, place, word in request.swaps:
        if at == side and 0 <= place < len(swapped):
            piece = _piece(model, word)
            swapped[place] = swapped[place].model_copy(update={"text": word, "piece": piece})
    return swapped


def swapped_ids(
    model: Model, request: RunRequest, side: Side, ids: Sequence[int], mask: int | None
) -> list[int]:
    """The ids with the swapped words; a mask stays one, so that its prediction can be compared."""
    swapped = list(ids)
    for at, place, word in request.swaps:
        if at == side and 0 <= place < len(swapped) and swapped[place] != mask:
            swapped[place] = word_id(model, word)
    return swapped


def _piece(model: Model, word: str) -> str:
    return word if model.tokenizer is None else model.tokenizer.token(word_id(model, word))
