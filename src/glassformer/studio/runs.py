"""A run is one text through one model, recorded. Only the most recent runs are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from glassformer.errors import InputError
from glassformer.generate.job import prepare
from glassformer.generate.sampling import generate_tokens
from glassformer.glass import Edit, Recorder, Trace, stacks
from glassformer.glass.stacks import StackName
from glassformer.loaded import Model, record
from glassformer.studio.cache import RecentCache
from glassformer.studio.guard import no_model
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.schemas import (
    RunRequest,
    RunRow,
    Side,
    StackShape,
    StackSize,
    Token,
    Tokens,
)
from glassformer.studio.tokenization import mask_token, tokenize, tokenize_ids, tokenize_target
from glassformer.studio.views import interventions
from glassformer.studio.views.predictions import next_token_bits, predictions

JsonBytes = bytes
BLOCK = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.")
MAX_RUNS = 16
MAX_BYTES = 1 << 30  # of all runs together; and of the weights and scores of one
MAX_TRANSLATION_TOKENS = 128


@dataclass(frozen=True, eq=False)
class RecordedRun:
    id: str
    request: RunRequest
    model: Model | None  # None: an uploaded trace
    trace: Trace
    tokens: dict[StackName, list[Token]]
    row: RunRow
    edit: Edit  # the interventions of this run
    target: str | None  # what a translation model has written
    inputs: Any = None  # the text, as `record` takes it
    next_bits: list[float | None] = field(default_factory=list)  # surprisal of each token, if known
    kept: dict[str, JsonBytes] = field(default_factory=dict)  # answers that took long, as JSON

    @property
    def bytes(self) -> int:
        return sum(t.nbytes for t in self.trace.values()) + sum(map(len, list(self.kept.values())))

    def once(self, name: str, compute: Callable[[], BaseModel]) -> JsonBytes:
        """The JSON of what `compute` returns; computed for the first request only."""
        if name not in self.kept:
            self.kept[name] = compute().model_dump_json().encode()
        return self.kept[name]

    @property
    def loaded_model(self) -> Model:
        """The model; raises InputError for an uploaded trace, which has none."""
        if self.model is None:
            raise InputError("a trace alone is not enough: this needs the model's weights")
        return self.model


class RecordedRuns(RecentCache[RecordedRun]):
    """Runs of the served models; uploaded traces apart, because they cannot be run again."""

    def __init__(self, max_entries: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(max_entries, max_bytes)
        self.traces: RecentCache[RecordedRun] = RecentCache(max_entries, max_bytes)

    def get(self, id: str) -> RecordedRun:
        return self.traces.get(id) if id in self.traces.entries else super().get(id)

    def uploaded(self) -> list[RecordedRun]:
        with self.traces.lock:
            return list(self.traces.entries.values())

    def uploaded_run(self, request: RunRequest) -> RecordedRun:
        """The uploaded trace that is named as a model; it has its own text and no other."""
        run = next((each for each in self.uploaded() if each.id == request.model), None)
        if run is None:
            raise no_model()
        if request != run.request:
            raise InputError("a trace holds one recorded text: choose a model to run another")
        return run

    def add(self, model: Model, request: RunRequest, progress: JobMonitor) -> RecordedRun:
        return self.put(record_run(model, request, f"r{self.next_number()}", progress))


def stack_sizes(model: Model) -> list[StackSize]:
    """Layers and heads of each stack of this model; none of a table of word vectors."""
    config = model.task.backbone.config
    if not config.depth:
        return []
    own = {"encoder": config, "decoder": config.output_stack, "cross": config.output_stack}
    names: dict[str, tuple[StackName, ...]] = {
        "encoder": ("encoder",), "decoder": ("decoder",), "seq2seq": ("encoder", "decoder", "cross")
    }  # fmt: skip
    return [
        StackSize(name=name, layers=own[name].depth, heads=own[name].heads)
        for name in names[config.family]
    ]


def max_tokens(model: Model) -> int:
    """The longest text: limited by the model's length and by memory for the recording."""
    heads = sum(size.layers * size.heads for size in stack_sizes(model))
    # Weights and scores of each pair of tokens; a model without heads has none.
    fits = math.isqrt(MAX_BYTES // (max(heads, 1) * 8))
    return min(model.task.backbone.config.max_length, fits)


def check_length(model: Model, ids: list[int]) -> list[int]:
    """The same ids; raises InputError if they are too many."""
    most = max_tokens(model)
    if len(ids) > most:
        raise InputError(
            f"the text has {len(ids):,} tokens and at most {most:,} fit here: shorten it"
        )
    return ids


@dataclass(frozen=True)
class RunInput:
    """The model's inputs and interventions for a request."""

    inputs: Any  # as `record` takes it
    tokens: dict[StackName, list[Token]]
    ids: list[int]  # of the positions that have predictions
    edit: Edit
    complete: bool = True
    second: Mapping[int, str] | None = None  # its tokens' characters, by their place


def record_run(model: Model, request: RunRequest, id: str, progress: JobMonitor) -> RecordedRun:
    """Run a model on a request's text and record it; raises Cancelled once the client has left."""
    sizes = stack_sizes(model)
    if not sizes:
        raise InputError(
            "this model has no attention heads: the page Pooling shows it, or takes its vectors"
        )
    depths = {size.name: size.layers for size in sizes if size.name != "cross"}

    def keep(name: str) -> bool:
        block = BLOCK.match(name)
        if block is not None:
            before = depths["encoder"] if block[1] == "decoder" and len(depths) > 1 else 0
            progress.report("layer", before + int(block[2]), sum(depths.values()))
        return True

    interventions.check(request, [size.name for size in sizes if size.name != "cross"])
    is_seq2seq = model.task.backbone.config.family == "seq2seq"
    run_input = (_seq2seq_input if is_seq2seq else _input)(model, request, progress)
    trace = record(model, run_input.inputs, keep=keep, edit=run_input.edit)
    tokenizer = model.tokenizer if is_seq2seq else None
    text = None if tokenizer is None else tokenizer.decode(run_input.ids)
    shapes = stacks(trace)
    row = RunRow(
        run=id,
        stacks=[
            StackShape(**size.model_dump(), rows=shapes[size.name].T, columns=shapes[size.name].S)
            for size in sizes
        ],
        tokens=Tokens(queries=run_input.tokens),
        predictions=predictions(
            model, trace, run_input.ids, text, second=run_input.second
        ).model_copy(update={"complete": run_input.complete}),
    )
    kept = _without_logits(trace, run_input.tokens)
    return RecordedRun(
        id, request, model, kept, run_input.tokens, row, run_input.edit, text, run_input.inputs,
        next_bits=next_token_bits(model, trace, run_input.ids),
    )  # fmt: skip


def _input(model: Model, request: RunRequest, progress: JobMonitor) -> RunInput:
    """A text, or a pair that is read as one."""
    side: Side = "decoder" if model.task.backbone.config.family == "decoder" else "encoder"
    source = tokenize(model, request.text, request.second)
    check_length(model, source.ids)

    def donor() -> Trace:
        text = tokenize(model, request.other or "")
        check_length(model, text.ids)
        return record(model, text.inputs, keep=f"{side}.blocks.*.out")

    edit = {
        **interventions.ablated(model, request, stack_sizes(model)),
        **interventions.of_side(model, request, side, donor),
    }
    tokenizer = model.tokenizer
    mask = None if tokenizer is None else tokenizer.id(mask_token(tokenizer) or "")
    ids = interventions.swapped_ids(model, request, side, source.ids, mask)
    tokens = interventions.swapped_tokens(model, request, side, source.tokens)
    return RunInput(source.inputs, {side: tokens}, ids, edit, second=source.second)


def _seq2seq_input(model: Model, request: RunRequest, progress: JobMonitor) -> RunInput:
    """A text and its translation.

    The translation is written without the interventions in the decoder: they cannot change it.
    """
    source = tokenize(model, request.text)
    check_length(model, source.ids)

    def donor(side: Side, target: list[int]) -> Callable[[], Trace]:
        def recorded() -> Trace:
            ids = check_length(model, tokenize(model, request.other or "").ids)
            return record(model, (ids, target), keep=f"{side}.blocks.*.out")

        return recorded

    start = [model.task.backbone.config.ids.start or 0]
    edit = {
        **interventions.ablated(model, request, stack_sizes(model)),
        **interventions.of_side(model, request, "encoder", donor("encoder", start)),
    }
    target_ids, complete = _target(model, request, source.ids, edit, progress)
    target = tokenize_ids(model, check_length(model, target_ids))
    edit = {
        **edit,
        **interventions.of_side(model, request, "decoder", donor("decoder", target.ids)),
    }
    tokens: dict[StackName, list[Token]] = {
        "encoder": interventions.swapped_tokens(model, request, "encoder", source.tokens),
        "decoder": interventions.swapped_tokens(model, request, "decoder", target.tokens),
    }
    return RunInput((source.ids, target.ids), tokens, target.ids, edit, complete)


def _without_logits(trace: Trace, tokens: dict[StackName, list[Token]]) -> Trace:
    """The trace without logits, which are vocabulary-sized, and with the names of swapped words."""
    kept = {name: tensor for name, tensor in trace.items() if name != "logits"}
    pieces = [[token.piece for token in row] for row in tokens.values()]
    return Trace(kept, pieces[-1], pieces[0] if len(pieces) > 1 else [], trace.config)


def _target(
    model: Model, request: RunRequest, source: list[int], edit: Edit, progress: JobMonitor
) -> tuple[list[int], bool]:
    """The decoder's ids, and whether they are complete.

    They are the start token and the requested translation, or else the model's own one.
    """
    start = model.task.backbone.config.ids.start or 0
    if request.second is not None:
        return [start, *tokenize_target(model, request.second)], True
    if "translate" not in model.task.spec.traits.calls:
        return [start, *source[:-1]], True  # it cannot generate: the decoder reads the source
    limit = max(min(MAX_TRANSLATION_TOKENS, max_tokens(model) - 1), 1)
    job = prepare(model.task, model.tokenizer, model.origin, [source], {"max_new_tokens": limit})

    def nothing(_: str) -> bool:
        progress.check()
        return False

    engine = job.engine(visitor=Recorder(model, nothing, edit))
    ends = job.settings.eos_token_id
    choices = []
    for choice in generate_tokens(engine, job.requests(), job.settings):
        choices.append(choice)
        progress.report("token", len(choices), limit)
    ids = [*job.prompts[0], *(choice.token for choice in choices if choice.token not in ends)]
    return ids, choices[-1].stopped == "end"
