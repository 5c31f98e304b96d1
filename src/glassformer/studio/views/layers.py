"""The logit lens at every layer, and a token's vector through the layers."""

from __future__ import annotations

import re

from glassformer.errors import InputError
from glassformer.glass import between, decided, lens, word_path
from glassformer.glass.lens import output_side
from glassformer.glass.stacks import StackName, sides
from glassformer.interpret.attribution import Contribution, attribute
from glassformer.interpret.contrast import ask
from glassformer.loaded import record
from glassformer.studio.cause_schemas import LogitPart, LogitParts
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import (
    BlockPart,
    LayerPoint,
    LensCurves,
    LensPredictions,
    WordTrajectory,
)
from glassformer.studio.runs import RecordedRun
from glassformer.studio.views.predictions import TOP, guesses, readable

BLOCK = re.compile(r"\w+\.blocks\.(\d+)\.(attention|cross)?")


def lens_curves(run: RecordedRun, progress: JobMonitor) -> LensCurves:
    """How close each point is to the final output, for all tokens."""

    def on_progress(done: int, of: int) -> None:
        progress.report("layer", done, of)

    decision = decided(run.loaded_model, run.trace, on_progress=on_progress)
    return LensCurves(
        points=[layer_point(name) for name in decision.points],
        words=[readable(run.loaded_model, id) for id in decision.ids],
        p=decision.probabilities.tolist(),
        kl=decision.distances.tolist(),
    )


def lens_at(run: RecordedRun, token: int) -> LensPredictions:
    """The likeliest words of one token at every point."""
    check_token(run, run.row.stacks[-1].name, token)
    by_point = lens(run.loaded_model, run.trace, top_k=TOP, inside=True, at=[token])
    return LensPredictions(
        tops=[guesses(run.loaded_model, point, 0) for point in by_point.values()]
    )


def logit_parts(run: RecordedRun, token: int) -> LogitParts:
    """What each part of the model adds to the best word of one token, against the second best."""
    model = run.loaded_model
    check_token(run, run.row.stacks[-1].name, token)
    logits = record(model, run.inputs, keep="logits", edit=run.edit)["logits"]  # not kept in runs
    answer, other = logits[token].topk(2).indices.tolist()
    split = attribute(ask(model, run.inputs, answer, other, position=token), edit=run.edit)

    def part(each: Contribution) -> LogitPart:
        own: dict[str, StackName] = {"head": output_side(model.task), "cross_head": "cross"}
        return LogitPart(
            name=each.name, value=each.value, stack=own.get(each.kind), layer=each.layer,
            head=each.head,
        )  # fmt: skip

    return LogitParts(
        answer=readable(model, answer),
        other=readable(model, other),
        difference=split.difference,
        parts=[part(each) for each in split.strongest],
    )


def trajectory(
    run: RecordedRun, stack: StackName, token: int, mate: tuple[RecordedRun, int] | None
) -> WordTrajectory:
    """A token's vector through the layers; `mate` is a token of another run to compare it with."""
    check_token(run, stack, token)
    path = word_path(run.trace, token, stack, inside=True)
    cosines = None
    if mate is not None:
        other, other_token = mate
        if (other.request.model, other.request.step) != (run.request.model, run.request.step):
            raise InputError("only two texts of the same model can be compared")
        check_token(other, stack, other_token)
        cosines = between(
            (run.trace, token), (other.trace, other_token), stack, inside=True
        ).tolist()
    return WordTrajectory(
        points=[layer_point(name) for name in path.points],
        norm=path.norm.tolist(),
        to_start=path.to_start.tolist(),
        to_end=path.to_end.tolist(),
        between=cosines,
    )


def check_token(run: RecordedRun, stack: str, token: int) -> None:
    count = len(sides(run.trace, stack)[0])
    if not 0 <= token < count:
        raise InputError(f"token {token}: this text has tokens 0 to {count - 1}")


def layer_point(name: str) -> LayerPoint:
    """decoder.blocks.3.attention_sum → after the attention of layer 3."""
    match = BLOCK.match(name)
    if match is None:
        return LayerPoint(name="embedding", layer=None, part="embedding")
    parts: dict[str | None, BlockPart] = {"attention": "attention", "cross": "cross", None: "block"}
    layer, part = int(match[1]), parts[match[2]]
    return LayerPoint(name=f"{part} {layer}", layer=layer, part=part)
