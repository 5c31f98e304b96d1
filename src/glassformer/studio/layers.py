"""When is the answer decided? What a model would say at every point, and a word's way there."""

from __future__ import annotations

import re

from glassformer.errors import InputError
from glassformer.glass import between, decided, lens, word_path
from glassformer.glass.stacks import sides
from glassformer.studio.page_schemas import Decided, LensReading, Part, Point, Way
from glassformer.studio.predictions import TOP, readable
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Guess, StackName

BLOCK = re.compile(r"\w+\.blocks\.(\d+)\.(attention|cross)?")


def decision(run: RecordedRun) -> Decided:
    found = decided(run.whole, run.trace)
    return Decided(
        points=[_point(name) for name in found.points],
        words=[readable(run.whole, word) for word in found.words],
        p=found.chances.tolist(),
        kl=found.distances.tolist(),
    )


def reading(run: RecordedRun, token: int) -> LensReading:
    """What is said at one token, point by point."""
    _check(run, run.row.stacks[-1].name, token)
    found = lens(run.whole, run.trace, top_k=TOP, inside=True, at=[token])
    return LensReading(
        tops=[
            [
                Guess(text=readable(run.whole, word), p=p)
                for word, p in zip(said.words[0], said.chances[0].tolist(), strict=True)
            ]
            for said in found.values()
        ]
    )


def way(
    run: RecordedRun, stack: StackName, token: int, mate: tuple[RecordedRun, int] | None
) -> Way:
    """One word through the layers; beside it the `mate`, a word of another text."""
    _check(run, stack, token)
    own = word_path(run.trace, token, stack, inside=True)
    cosines = None
    if mate is not None:
        other, place = mate
        if (other.ask.model, other.ask.step) != (run.ask.model, run.ask.step):
            raise InputError("two texts through one model can be compared: run both with the same")
        _check(other, stack, place)
        cosines = between((run.trace, token), (other.trace, place), stack, inside=True).tolist()
    return Way(
        points=[_point(name) for name in own.points],
        norm=own.norm.tolist(),
        to_start=own.to_start.tolist(),
        to_end=own.to_end.tolist(),
        between=cosines,
    )


def _check(run: RecordedRun, stack: str, token: int) -> None:
    count = len(sides(run.trace, stack)[0])
    if not 0 <= token < count:
        raise InputError(f"token {token}: this text has tokens 0 to {count - 1}")


def _point(name: str) -> Point:
    """decoder.blocks.3.attention_sum → after the attention of layer 3."""
    found = BLOCK.match(name)
    if found is None:
        return Point(name="embedding", layer=None, part="embedding")
    parts: dict[str | None, Part] = {"attention": "attention", "cross": "cross", None: "block"}
    layer, part = int(found[1]), parts[found[2]]
    return Point(name=f"{part} {layer}", layer=layer, part=part)
