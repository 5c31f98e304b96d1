"""What is changed in a run: heads that are off, other words, vectors of another text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from glassformer.errors import InputError
from glassformer.glass import Edit, Trace, ablate, patched, swapped, word_id
from glassformer.loaded import Model
from glassformer.studio.schemas import Ask, Side, StackName, StackSize, Token


def check(ask: Ask, sides: Sequence[StackName]) -> None:
    for side, *_ in (*ask.swaps, *ask.patches):
        if side not in sides:
            raise InputError(f"this model has no {side}: write {' or '.join(sides)}")
    if ask.patches and not (ask.other or "").strip():
        raise InputError("a patch comes from another text: write one")


def heads_off(ask: Ask, sizes: Sequence[StackSize]) -> Edit:
    """Heads that are off, as `record` takes them."""
    known = {each.name: each for each in sizes}
    heads: dict[str, set[int]] = defaultdict(set)
    for stack, layer, head in ask.off:
        size = known.get(stack)
        if size is None or not (0 <= layer < size.layers and 0 <= head < size.heads):
            raise InputError(f"off: this model has no head {head} in layer {layer} of its {stack}")
        side, part = ("decoder", "cross") if stack == "cross" else (stack, "attention")
        heads[f"{side}.blocks.{layer}.{part}.mixed"].add(head)
    return {name: ablate(*sorted(found)) for name, found in heads.items()}


def of_side(model: Model, ask: Ask, side: Side, other: Callable[[], Trace]) -> Edit:
    """Words and vectors of one side; `other` records the text that vectors come from."""
    words = {place: word for at, place, word in ask.swaps if at == side}
    places = [(layer, token, source) for at, layer, token, source in ask.patches if at == side]
    return {
        **(swapped(model, side, words) if words else {}),
        **(patched(other(), side, places) if places else {}),
    }


def renamed(model: Model, ask: Ask, side: Side, tokens: Sequence[Token]) -> list[Token]:
    """The tokens with their new words."""
    found = list(tokens)
    for at, place, word in ask.swaps:
        if at == side and 0 <= place < len(found):
            piece = _name(model, word)
            found[place] = found[place].model_copy(update={"text": word, "piece": piece})
    return found


def answered(model: Model, ask: Ask, side: Side, ids: Sequence[int], mask: int | None) -> list[int]:
    """The ids that are answered: with the new words, and still at the blanks that were filled."""
    found = list(ids)
    for at, place, word in ask.swaps:
        if at == side and 0 <= place < len(found) and found[place] != mask:
            found[place] = word_id(model, word)
    return found


def _name(model: Model, word: str) -> str:
    return word if model.tokenizer is None else model.tokenizer.token(word_id(model, word))
