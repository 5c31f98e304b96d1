"""The head that shows a phenomenon best on one text, by measurement.

What is sought is written as one of

    induction        the highest score of that measure (any of MEASURES)
    it>pizza         the highest weight from the last "it" to "pizza"
    >pizza           the same from any token but itself
    ablation         the head without which the answer's probability falls most

and `cross:` or another stack in front looks in that stack only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from glassformer.errors import InputError, shown
from glassformer.glass import weights
from glassformer.glass.stacks import StackName
from glassformer.loaded import record
from glassformer.precision import widen
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import FoundHead, StackShape, Token
from glassformer.studio.tokenization import places_of
from glassformer.studio.views.interventions import heads_off
from glassformer.studio.views.measures import MEASURES, measures

ABLATION = "ablation"


def find_head(run: RecordedRun, search: str, progress: JobMonitor) -> FoundHead:
    """Raises InputError if this run has no head for this search."""
    prefix, colon, rest = search.partition(":")
    named = [stack for stack in run.row.stacks if colon and stack.name == prefix]
    what, stacks = (rest, named) if named else (search, run.row.stacks)
    if what == ABLATION:
        candidates = _by_ablation(run, stacks, progress)
    elif what in {measure.id for measure in MEASURES}:
        candidates = _by_measure(run, what, stacks)
    elif ">" in what:
        candidates = _by_weight(run, what, stacks)
    else:
        names = ", ".join(measure.id for measure in MEASURES)
        raise InputError(f"find: {shown(what)}: write it>pizza, {ABLATION}, or one of {names}")
    best = max(candidates, key=lambda each: each.value, default=None)
    if best is None or best.value <= 0:
        raise InputError(f"find: no head of this run shows {shown(what)}: write another text")
    return best


def _by_measure(run: RecordedRun, name: str, stacks: list[StackShape]) -> Iterator[FoundHead]:
    values = measures(run).values
    for stack in stacks:
        heads = values[stack.name].get(name)
        if heads is not None:
            yield _best(torch.tensor(heads), stack.name, None)


def _by_weight(run: RecordedRun, what: str, stacks: list[StackShape]) -> Iterator[FoundHead]:
    source, target = (part.strip() for part in what.split(">", 1))
    for stack in stacks:
        queries, keys = _sides(run, stack.name)
        to = [place for places in places_of(target, keys) for place in places]
        asked = [places[-1] for places in places_of(source, queries)[-1:]]
        asking = asked if source else _words(queries)
        for query in asking:
            others = [place for place in to if stack.name == "cross" or place != query]
            if others:
                heads = widen(weights(run.trace, stack.name)[:, :, query, others]).sum(-1)
                yield _best(heads, stack.name, query)


def _by_ablation(
    run: RecordedRun, stacks: list[StackShape], progress: JobMonitor
) -> Iterator[FoundHead]:
    """How far the probability of the best answer falls without each head."""
    places = run.row.predictions.at
    if run.row.predictions.kind not in ("masked", "next"):
        raise InputError("find: ablation needs a model that predicts a word: choose another")
    answer, model = places[-1], run.loaded_model
    count, done = sum(stack.layers * stack.heads for stack in stacks), 0
    for stack in stacks:
        falls = torch.zeros(stack.layers, stack.heads)
        for layer, head in torch.cartesian_prod(*map(torch.arange, falls.shape)).tolist():
            progress.report("head", done, count)
            done += 1
            off = run.request.model_copy(
                update={"off": (*run.request.off, (stack.name, layer, head))}
            )
            edit = {**run.edit, **heads_off(off, run.row.stacks)}
            logits = record(model, run.inputs, keep="logits", edit=edit)["logits"]
            chances = widen(logits[answer.token]).softmax(-1)
            falls[layer, head] = answer.top[0].p - chances[answer.top[0].id]
        yield _best(falls, stack.name, answer.token)


def _best(values: Tensor, stack: StackName, query: int | None) -> FoundHead:  # (L, H)
    place = int(values.argmax())
    layer, head = divmod(place, values.shape[1])
    return FoundHead(
        stack=stack, layer=layer, head=head, query=query, value=float(values.flatten()[place])
    )


def _sides(run: RecordedRun, stack: StackName) -> tuple[list[Token], list[Token]]:
    """The queries and the keys."""
    if stack == "cross":
        return run.tokens["decoder"], run.tokens["encoder"]
    return run.tokens[stack], run.tokens[stack]


def _words(tokens: list[Token]) -> list[int]:
    return [place for place, token in enumerate(tokens) if not token.special]
