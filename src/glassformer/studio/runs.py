"""A run is one text through one model, recorded. The newest are kept, and only those."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from glassformer.errors import InputError
from glassformer.generate.job import prepare
from glassformer.generate.sampling import write
from glassformer.glass import Edit, Recorder, Trace, stacks
from glassformer.loaded import Model, record
from glassformer.studio import interventions as whatif
from glassformer.studio.cache import Shelf
from glassformer.studio.guard import no_model
from glassformer.studio.predictions import predictions
from glassformer.studio.reading import mask_of, of_ids, read, read_target
from glassformer.studio.schemas import (
    Ask,
    RunRow,
    Side,
    StackName,
    StackShape,
    StackSize,
    Token,
    Tokens,
)  # fmt: skip

MOST_RUNS = 16
MOST_BYTES = 1 << 30  # of all runs together; and of the weights and scores of one
MOST_WRITTEN = 128  # tokens of a translation


class Stopped(Exception):
    """Somebody has said that the work is not wanted any more."""


@dataclass(frozen=True, eq=False)
class RecordedRun:
    id: str
    ask: Ask
    model: Model | None  # none: a trace that came alone
    trace: Trace
    tokens: dict[StackName, list[Token]]
    row: RunRow
    edit: Edit  # what was changed inside: heads that are off
    target: str | None  # what a translator has written
    what: Any = None  # the text, as `record` takes it

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for t in self.trace.values())

    @property
    def whole(self) -> Model:
        """The model, for what cannot be said without its weights."""
        if self.model is None:
            raise InputError("a trace alone cannot tell: it takes the model's weights")
        return self.model


class RecordedRuns(Shelf[RecordedRun]):
    def __init__(self, most: int = MOST_RUNS, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(most, most_bytes)
        self.traces: Shelf[RecordedRun] = Shelf(most, most_bytes)  # nobody can run these again

    def find(self, id: str) -> RecordedRun:
        return self.traces.find(id) if id in self.traces.kept else super().find(id)

    def alone(self) -> list[RecordedRun]:
        """Traces that came without a model."""
        with self.traces.lock:
            return list(self.traces.kept.values())

    def recorded(self, ask: Ask) -> RecordedRun:
        """The trace that is asked for in place of a model; it has its own text, and no other."""
        run = next((each for each in self.alone() if each.id == ask.model), None)
        if run is None:
            raise no_model()
        if ask != run.ask:
            raise InputError("a trace holds one text as it was recorded: run a model for another")
        return run

    def add(self, model: Model, ask: Ask, stop: Event) -> RecordedRun:
        return self.keep(start(model, ask, f"r{self.number()}", stop))


def sizes(model: Model) -> list[StackSize]:
    config = model.task.backbone.config
    deep = {"encoder": config.depth, "decoder": config.depth}
    if config.family == "seq2seq":
        deep["decoder"] = deep["cross"] = config.decoder_depth or config.depth
    names: dict[str, tuple[StackName, ...]] = {
        "encoder": ("encoder",), "decoder": ("decoder",), "seq2seq": ("encoder", "decoder", "cross")
    }  # fmt: skip
    return [
        StackSize(name=name, layers=deep[name], heads=config.heads) for name in names[config.family]
    ]


def limit(model: Model) -> int:
    """The most tokens: what the model reads, and what there is room to record."""
    heads = sum(each.layers * each.heads for each in sizes(model))
    if not heads:
        raise InputError(
            "this model has no attention heads to look at: gf.record shows what else is in it, and "
            "classify --explain what it weighs"
        )
    room = math.isqrt(MOST_BYTES // (heads * 8))  # weights and scores of each pair of tokens
    return min(model.task.backbone.config.max_length, room)


@dataclass(frozen=True)
class Given:
    """What goes in."""

    what: Any  # as `record` takes it
    shown: dict[StackName, list[Token]]
    ids: list[int]  # that are answered
    edit: Edit
    complete: bool = True


def start(model: Model, ask: Ask, id: str, stop: Event) -> RecordedRun:
    def keep(name: str) -> bool:
        if stop.is_set():
            raise Stopped
        return True

    whatif.check(ask, [each.name for each in sizes(model) if each.name != "cross"])
    translates = model.task.backbone.config.family == "seq2seq"
    given = (_pair if translates else _text)(model, ask, keep)
    trace = record(model, given.what, keep=keep, edit=given.edit)
    spelt = model.tokenizer if translates else None
    text = None if spelt is None else spelt.decode(given.ids)
    shapes = stacks(trace)
    row = RunRow(
        run=id,
        stacks=[
            StackShape(**size.model_dump(), rows=shapes[size.name].T, columns=shapes[size.name].S)
            for size in sizes(model)
        ],
        tokens=Tokens(queries=given.shown),
        says=predictions(model, trace, given.ids, text).model_copy(
            update={"complete": given.complete}
        ),
    )
    kept = _without_logits(trace, given.shown)
    return RecordedRun(id, ask, model, kept, given.shown, row, given.edit, text, given.what)


def _text(model: Model, ask: Ask, keep: Callable[[str], bool]) -> Given:
    """A text, or a pair that is read as one."""
    side: Side = "decoder" if model.task.backbone.config.family == "decoder" else "encoder"
    source = read(model, ask.text, ask.second)
    fits(model, source.ids)

    def other() -> Trace:
        what = read(model, ask.other or "")
        fits(model, what.ids)
        return record(model, what.what, keep=f"{side}.blocks.*.out")

    edit = {**whatif.heads_off(ask, sizes(model)), **whatif.of_side(model, ask, side, other)}
    mask = None if model.tokenizer is None else model.tokenizer.id(mask_of(model.tokenizer) or "")
    ids = whatif.answered(model, ask, side, source.ids, mask)
    return Given(source.what, {side: whatif.renamed(model, ask, side, source.shown)}, ids, edit)


def _pair(model: Model, ask: Ask, keep: Callable[[str], bool]) -> Given:
    """A text, and what a translator makes of it. What is changed in the decoder cannot change
    what it reads: that is written first."""
    source = read(model, ask.text)
    fits(model, source.ids)

    def other(side: Side, target: list[int]) -> Callable[[], Trace]:
        def look() -> Trace:
            ids = fits(model, read(model, ask.other or "").ids)
            return record(model, (ids, target), keep=f"{side}.blocks.*.out")

        return look

    begin = [model.task.backbone.config.ids.start or 0]
    off = whatif.heads_off(ask, sizes(model))
    edit = {**off, **whatif.of_side(model, ask, "encoder", other("encoder", begin))}
    written, complete = _target(model, ask, source.ids, edit, keep)
    target = of_ids(model, fits(model, written))
    edit = {**edit, **whatif.of_side(model, ask, "decoder", other("decoder", target.ids))}
    shown: dict[StackName, list[Token]] = {
        "encoder": whatif.renamed(model, ask, "encoder", source.shown),
        "decoder": whatif.renamed(model, ask, "decoder", target.shown),
    }
    return Given((source.ids, target.ids), shown, target.ids, edit, complete)


def _without_logits(trace: Trace, shown: dict[StackName, list[Token]]) -> Trace:
    """They are as wide as the vocabulary, and asked for once. Words that were swapped are named."""
    kept = {name: tensor for name, tensor in trace.items() if name != "logits"}
    pieces = [[token.piece for token in tokens] for tokens in shown.values()]
    return Trace(kept, pieces[-1], pieces[0] if len(pieces) > 1 else [], trace.config)


def fits(model: Model, ids: list[int]) -> list[int]:
    """The same ids, if there is room for them."""
    most = limit(model)
    if len(ids) > most:
        raise InputError(
            f"the text has {len(ids):,} tokens and at most {most:,} fit here: shorten it"
        )
    return ids


def _target(
    model: Model, ask: Ask, source: list[int], edit: Edit, keep: Callable[[str], bool]
) -> tuple[list[int], bool]:
    """What the decoder reads: its start token and what was given, or what it writes itself.

    And whether that came to its end.
    """
    start = model.task.backbone.config.ids.start or 0
    if ask.second is not None:
        return [start, *read_target(model, ask.second)], True
    if model.task.spec.kind != "translation":
        return [start, *source[:-1]], True  # it cannot write: it reads the source once more
    room = max(min(MOST_WRITTEN, limit(model) - 1), 1)
    given = {"max_new_tokens": room}
    writing = prepare(model.task, model.tokenizer, model.origin, [source], given)
    visitor = Recorder(model, lambda name: keep(name) and False, edit)
    ends = writing.settings.eos_token_id
    chosen = list(write(writing.engine(visitor=visitor), writing.requests(), writing.settings))
    ids = [*writing.prompts[0], *(each.token for each in chosen if each.token not in ends)]
    return ids, chosen[-1].stopped == "end"
