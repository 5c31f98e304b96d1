"""Why this word next? A text as it is written, step by step: every number is the engine's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate.beam import LOST, Turn, beam
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation
from glassformer.generate.generation import Stopped as Ended
from glassformer.generate.job import GenerationJob, prepare
from glassformer.generate.processors import LogitRows, Processor, largest, only, processors
from glassformer.generate.sampling import Choice, write
from glassformer.glass import Trace
from glassformer.glass.stacks import place
from glassformer.loaded import Model, record
from glassformer.model import Cache
from glassformer.precision import widen
from glassformer.studio.cache import Shelf
from glassformer.studio.encode import to_bytes
from glassformer.studio.page_schemas import (
    Beams,
    CacheRow,
    CandidateRow,
    Ending,
    Looked,
    Node,
    Room,
    SamplingRule,
    StepRow,
    WriteAsk,
    WritingRow,
)
from glassformer.studio.reading import of_ids, read
from glassformer.studio.runs import Stopped, fits
from glassformer.studio.schemas import StackName

LOGPROBS = {"logprobs": True}
TOP = 10  # candidates that are shown
MOST_KEPT, MOST_BYTES = 16, 256 << 20
RULES = {
    "heat": "temperature", "keep_best": "top-k", "keep_mass": "top-p", "keep_near_best": "min-p",
    "penalise_repetition": "repetition", "forbid_repeated_runs": "no repeated run",
    "forbid_end": "too early to end", "force_first": "forced", "force_last": "forced",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Wrote:
    """A text that was written, and what each of its tokens looked at as it was."""

    id: str
    ask: WriteAsk
    row: WritingRow
    trace: Trace | None  # none: a beam search writes many

    @property
    def bytes(self) -> int:
        return 0 if self.trace is None else sum(t.nbytes for t in self.trace.values())


class Writings(Shelf[Wrote]):
    def __init__(self) -> None:
        super().__init__(MOST_KEPT, MOST_BYTES)

    def add(self, model: Model, ask: WriteAsk, stop: Event) -> Wrote:
        return self.keep(start(model, ask, f"w{self.number()}", stop))


def start(model: Model, ask: WriteAsk, id: str, stop: Event) -> Wrote:
    source = read(model, ask.text).ids
    given = ask.model_dump(exclude={"model", "step", "text", "taken"}, exclude_none=True)
    writing = prepare(model.task, model.tokenizer, model.origin, [source], given | LOGPROBS)
    fits(model, source)
    vocab = model.task.backbone.config.vocab_size
    if any(not 0 <= token < vocab for _, token in ask.taken):
        raise InputError(f"taken: write numbers from 0 to {vocab - 1}")
    if ask.num_beams > 1:
        return _search(model, writing, ask, id, stop)
    watcher = _Watcher(model, writing, dict(ask.taken), stop)
    stopped = watcher.write()
    ids = [step.token for step in watcher.steps]
    row = _row(model, writing, id, ids, stopped, watcher.engine)
    looked = _looked(model, writing, ids)
    return Wrote(id, ask, row.model_copy(update={"steps": watcher.steps}), looked)


@dataclass(eq=False)
class _Watcher:
    """Stands between the processors: sees the scores on their way, and may force a token."""

    model: Model
    writing: GenerationJob
    taken: dict[int, int]  # which token the user wants at which step
    stop: Event
    scores: list[Tensor] = field(default_factory=list)  # (V,) of this step: before, after each rule
    steps: list[StepRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.writing.engine()
        self.vocab = self.model.task.backbone.config.vocab_size
        self.rules = processors(self.writing.settings, self.vocab, self.engine.device)
        self.cache: CacheRow | None = None

    def write(self) -> Ended:
        rules = [partial(self._after, rule=rule) for rule in self.rules]
        steps: tuple[Processor, ...] = (self._begin, *rules, self._take)
        requests, settings = self.writing.requests(), self.writing.settings
        stopped: Ended | None = None
        for choice in write(self.engine, requests, settings, self.writing.tokenizer, steps=steps):
            self.steps.append(self._step(choice))
            stopped = choice.stopped
        return stopped or "length"

    def _begin(self, scores: Tensor, rows: LogitRows) -> Tensor:
        if self.stop.is_set():
            raise Stopped
        self.cache = _cache_row(self.engine, self.cache)
        self.scores = [scores[0]]
        return scores

    def _after(self, scores: Tensor, rows: LogitRows, *, rule: Processor) -> Tensor:
        scores = rule(scores, rows)
        self.scores.append(scores[0])
        return scores

    def _take(self, scores: Tensor, rows: LogitRows) -> Tensor:
        """What the user has chosen comes, whatever its score."""
        token = self.taken.get(int(rows.made[0]))
        return scores if token is None else only([token], self.vocab, scores.device)[None]

    def _step(self, choice: Choice) -> StepRow:
        assert self.cache is not None  # noqa: S101 - a choice comes after its scores
        p = torch.stack([each.softmax(-1) for each in self.scores]).cpu()  # (1 + rules, V)
        kept = torch.stack([each.isfinite() for each in self.scores]).cpu()
        best: list[int] = largest(p[:1], min(TOP, self.vocab))[1][0].tolist()
        if choice.token not in best:
            best.append(choice.token)
        lefts = kept[1:].sum(-1).tolist()
        return StepRow(
            token=choice.token,
            logprob=choice.logprob or 0.0,
            chosen=len(self.steps) in self.taken,
            rules=[_rule(rule, left) for rule, left in zip(self.rules, lefts, strict=True)],
            top=[
                CandidateRow(
                    id=i, text=spoken(self.model, i), p=p[:, i].tolist(), cut=_cut(kept[:, i])
                )
                for i in best
            ],
            cache=self.cache,
        )


def _rule(rule: Processor, left: int) -> SamplingRule:
    """A processor's setting and its value, as users write them."""
    assert isinstance(rule, partial)  # noqa: S101 - processors makes them so
    values = [each for each in rule.keywords.values() if isinstance(each, int | float)]
    name = RULES.get(rule.func.__name__, "forbidden")
    return SamplingRule(name=name, value=values[0] if values else None, left=left)


def _cut(kept: Tensor) -> int | None:
    """The first rule after which a token cannot come any more."""
    gone = (~kept).nonzero()
    return None if not len(gone) else max(int(gone[0]) - 1, 0)


def spoken(model: Model, token: int) -> str:
    """One token of the vocabulary as it is read."""
    return of_ids(model, [token]).shown[0].text


def _cache_row(engine: Engine, before: CacheRow | None) -> CacheRow:
    """The first step reads nothing back: all that it looks at was made in it."""
    kept, source = sum(engine.cache.counts), sum(engine.sources)
    earlier = before.kept if before else 0
    return CacheRow(
        kept=kept,
        written=kept - earlier,
        read=earlier,
        source=source,
        bytes=(kept + source) * engine.cache.token_bytes,
    )


def _room(cache: Cache) -> Room:
    _, heads, _, key = cache.keys[0].shape
    return Room(
        layers=len(cache.keys),
        heads=heads,
        key=key,
        value=cache.values[0].shape[-1],
        item=cache.keys[0].element_size(),
        token=cache.token_bytes,
        capacity=cache.capacity,
        source=cache.memory_capacity,
        reserved=cache.nbytes,
    )


def _row(
    model: Model,
    writing: GenerationJob,
    id: str,
    ids: Sequence[int],
    stopped: Ended,
    engine: Engine,
) -> WritingRow:
    prompt = list(writing.prompts[0])
    shown = of_ids(model, [*prompt, *ids]).shown
    return WritingRow(
        writing=id,
        prompt=shown[: len(prompt)],
        source=[] if writing.sources is None else of_ids(model, writing.sources[0]).shown,
        written=shown[len(prompt) :],
        text=_spelt(model, ids),
        stopped=stopped,
        steps=[],
        room=_room(engine.cache),
        beams=None,
    )


def _spelt(model: Model, ids: Sequence[int]) -> str:
    return " ".join(map(str, ids)) if model.tokenizer is None else model.tokenizer.decode(ids)


def _looked(model: Model, writing: GenerationJob, ids: Sequence[int]) -> Trace:
    """The same tokens once more, all at once and in the open; the last one is never read."""
    text = [*writing.prompts[0], *ids[:-1]]
    what = text if writing.sources is None else (writing.sources[0], text)
    return record(model, what, keep="decoder.*.weights")


def attention(wrote: Wrote, stack: StackName, layer: int, head: int | None) -> Tensor:  # (steps, S)
    """What each written token's choice was made of: one head, or the mean of a layer's."""
    if wrote.trace is None:
        raise InputError("a beam search writes many texts: walk through one of them")
    found = widen(wrote.trace[f"{place(wrote.trace, stack, layer, head)}.weights"])
    rows = found.mean(0) if head is None else found[head]
    return rows[len(wrote.row.prompt) - 1 :]


def picture(wrote: Wrote, stack: StackName, layer: int, head: int | None) -> Tensor:
    return to_bytes(attention(wrote, stack, layer, head))


def rows(wrote: Wrote, stack: StackName, layer: int, head: int | None) -> Looked:
    """The same in all digits, as far as there were tokens to look at."""
    first = len(wrote.row.prompt)
    found = attention(wrote, stack, layer, head)
    until = [None if stack == "cross" else first + step for step in range(len(found))]
    return Looked(weights=[row[:end].tolist() for row, end in zip(found, until, strict=True)])


def _search(model: Model, writing: GenerationJob, ask: WriteAsk, id: str, stop: Event) -> Wrote:
    if ask.taken:
        raise InputError("taken: a beam search chooses by itself: write num_beams = 1")
    engine = writing.engine()
    tree = _Tree(model, engine, stop)
    found = beam(
        engine, writing.prompts, writing.settings, writing.sources, writing.tokenizer,
        watch=tree.turn,
    )[0]  # fmt: skip
    row = _row(model, writing, id, found[0].ids, found[0].stopped, engine)
    best = [_ending(model, each) for each in tree.pool]
    penalty = writing.settings.length_penalty
    beams = Beams(nodes=tree.nodes, best=best, caches=tree.caches, penalty=penalty)
    return Wrote(id, ask, row.model_copy(update={"beams": beams}), None)


def _ending(model: Model, text: Generation) -> Ending:
    return Ending(
        ids=list(text.ids),
        text=_spelt(model, text.ids),
        score=text.score or 0.0,
        stopped=text.stopped,
    )


@dataclass(eq=False)
class _Tree:
    """Writes down every candidate of a beam search as it is found."""

    model: Model
    engine: Engine
    stop: Event
    nodes: list[Node] = field(default_factory=list)
    caches: list[CacheRow] = field(default_factory=list)
    pool: list[Generation] = field(default_factory=list)
    beams: list[int | None] = field(default_factory=list)  # the node that each beam has come to

    def turn(self, turn: Turn) -> None:
        if self.stop.is_set():
            raise Stopped
        before = self.caches[-1] if self.caches else None
        self.caches.append(_cache_row(self.engine, before))
        self.pool = turn.pools[0]
        texts = {text.ids: text for text in self.pool}
        number, beams = len(self.caches) - 1, self.beams or [None] * turn.order.shape[1]
        places: dict[int, int] = {}
        for c, total in enumerate(turn.found.sums[0].tolist()):
            if total <= LOST / 2:  # a beam that was never one
                continue
            parent = beams[int(turn.found.parents[0, c])]
            token = int(turn.found.tokens[0, c])
            done = texts.get((*self._ids(parent), token))
            going = turn.going[0] and c in turn.order[0] and not turn.ended[0, c]
            places[c] = len(self.nodes)
            self.nodes.append(
                Node(
                    turn=number,
                    parent=parent,
                    text=spoken(self.model, token),
                    token=token,
                    sum=total,
                    logprob=float(turn.found.logprobs[0, c]),
                    state="done" if done else "kept" if going else "dropped",
                    score=done.score if done else None,
                )
            )
        self.beams = [places.get(int(c)) for c in turn.order[0]]

    def _ids(self, node: int | None) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        while node is not None:
            found = (self.nodes[node].token, *found)
            node = self.nodes[node].parent
        return found
