"""Generation step by step: probabilities, sampling rules and cache as the engine has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate import processors as rules
from glassformer.generate.beam import IMPOSSIBLE, BeamStep, beam
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation, Stopped
from glassformer.generate.job import GenerationJob, prepare
from glassformer.generate.processors import LogitRows, Processor, largest, only, processors
from glassformer.generate.sampling import Choice, generate_tokens
from glassformer.glass import Trace
from glassformer.glass.stacks import StackName, place
from glassformer.loaded import Model, record
from glassformer.model import Cache
from glassformer.precision import widen
from glassformer.studio.cache import RecentCache
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import (
    BeamNode,
    BeamResult,
    BeamSearch,
    CacheRow,
    CacheSize,
    CandidateRow,
    GenerationRequest,
    GenerationRow,
    GenerationStep,
    SamplingRule,
    StepAttention,
)
from glassformer.studio.runs import check_length
from glassformer.studio.tokenization import tokenize, tokenize_ids
from glassformer.studio.views.encode import to_bytes

LOGPROBS = {"logprobs": True}
TOP = 10  # candidates
MAX_ENTRIES, MAX_BYTES = 16, 256 << 20
RULES: dict[Callable[..., Tensor], str] = {
    rules.apply_temperature: "temperature", rules.keep_top_k: "top-k", rules.keep_top_p: "top-p",
    rules.keep_min_p: "min-p", rules.penalise_repetition: "repetition",
    rules.forbid_repeated_ngrams: "repeated n-gram", rules.forbid_end: "too early to end",
    rules.force_first: "forced", rules.force_last: "forced",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RecordedGeneration:
    """A generated text, and the attention weights of each of its steps."""

    id: str
    request: GenerationRequest
    row: GenerationRow
    trace: Trace | None  # None: a beam search, which has many texts

    @property
    def bytes(self) -> int:
        return 0 if self.trace is None else sum(t.nbytes for t in self.trace.values())


class RecordedGenerations(RecentCache[RecordedGeneration]):
    def __init__(self) -> None:
        super().__init__(MAX_ENTRIES, MAX_BYTES)

    def add(
        self, model: Model, request: GenerationRequest, progress: JobMonitor
    ) -> RecordedGeneration:
        return self.put(record_generation(model, request, f"g{self.next_number()}", progress))


def record_generation(
    model: Model, request: GenerationRequest, id: str, progress: JobMonitor
) -> RecordedGeneration:
    """Continue a request's text and record every step; Cancelled once the client has left."""
    source = tokenize(model, request.text).ids
    options = request.model_dump(exclude={"model", "step", "text", "taken"}, exclude_none=True)
    job = prepare(model.task, model.tokenizer, model.origin, [source], options | LOGPROBS)
    check_length(model, source)
    vocab = model.task.backbone.config.vocab_size
    if any(not 0 <= token < vocab for _, token in request.taken):
        raise InputError(f"taken: write numbers from 0 to {vocab - 1}")
    if request.num_beams > 1:
        return _beam_search(model, job, request, id, progress)
    recorder = _StepRecorder(model, job, dict(request.taken), progress, request.max_new_tokens)
    stopped = recorder.generate()
    ids = [step.token for step in recorder.steps]
    row = _row(model, job, id, ids, stopped, recorder.engine)
    row = row.model_copy(update={"steps": recorder.steps})
    return RecordedGeneration(id, request, row, _record_attention(model, job, ids))


@dataclass(eq=False)
class _StepRecorder:
    """Runs between the logits processors: records the logits after each, and may force a token."""

    model: Model
    job: GenerationJob
    taken: dict[int, int]  # step to token: what the user has chosen
    progress: JobMonitor
    most: int  # tokens
    # (V,) of this step: before any processor, and after each.
    scores: list[Tensor] = field(default_factory=list)
    steps: list[GenerationStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.job.engine()
        self.vocab = self.model.task.backbone.config.vocab_size
        self.rules = processors(self.job.settings, self.vocab, self.engine.device)
        self.cache: CacheRow | None = None

    def generate(self) -> Stopped:
        rules = [partial(self._after, rule=rule) for rule in self.rules]
        steps: tuple[Processor, ...] = (self._begin, *rules, self._take)
        requests, settings = self.job.requests(), self.job.settings
        stopped: Stopped | None = None
        for choice in generate_tokens(
            self.engine, requests, settings, self.job.tokenizer, steps=steps
        ):
            self.steps.append(self._step(choice))
            stopped = choice.stopped
        return stopped or "length"

    def _begin(self, scores: Tensor, rows: LogitRows) -> Tensor:
        self.progress.report("token", len(self.steps), self.most)
        self.cache = _cache_row(self.engine, self.cache)
        self.scores = [scores[0]]
        return scores

    def _after(self, scores: Tensor, rows: LogitRows, *, rule: Processor) -> Tensor:
        scores = rule(scores, rows)
        self.scores.append(scores[0])
        return scores

    def _take(self, scores: Tensor, rows: LogitRows) -> Tensor:
        """Force the token that the user has chosen, whatever its score."""
        token = self.taken.get(int(rows.generated[0]))
        return scores if token is None else only([token], self.vocab, scores.device)[None]

    def _step(self, choice: Choice) -> GenerationStep:
        assert self.cache is not None  # noqa: S101 - _begin sets it
        p = torch.stack([scores.softmax(-1) for scores in self.scores]).cpu()  # (1 + rules, V)
        kept = torch.stack([scores.isfinite() for scores in self.scores]).cpu()
        best: list[int] = largest(p[:1], min(TOP, self.vocab))[1][0].tolist()
        if choice.token not in best:
            best.append(choice.token)
        counts = kept[1:].sum(-1).tolist()
        return GenerationStep(
            token=choice.token,
            logprob=choice.logprob or 0.0,
            chosen=len(self.steps) in self.taken,
            rules=[_rule(rule, left) for rule, left in zip(self.rules, counts, strict=True)],
            top=[
                CandidateRow(
                    id=i, text=token_text(self.model, i), p=p[:, i].tolist(), cut=_cut(kept[:, i])
                )
                for i in best
            ],
            cache=self.cache,
        )


def _rule(rule: Processor, left: int) -> SamplingRule:
    """The name and value of a processor's setting."""
    assert isinstance(rule, partial)  # noqa: S101 - `processors` returns partials
    values = [value for value in rule.keywords.values() if isinstance(value, int | float)]
    name = RULES.get(rule.func, "forbidden")
    return SamplingRule(name=name, value=values[0] if values else None, left=left)


def _cut(kept: Tensor) -> int | None:
    """The first rule after which a token is impossible."""
    excluded = (~kept).nonzero()
    return None if not len(excluded) else max(int(excluded[0]) - 1, 0)


def token_text(model: Model, token: int) -> str:
    """One token of the vocabulary as readable text."""
    return tokenize_ids(model, [token]).tokens[0].text


def _cache_row(engine: Engine, before: CacheRow | None) -> CacheRow:
    """What the last forward pass wrote and read; the first one (prefill) reads nothing."""
    kept, source = sum(engine.cache.counts), sum(engine.sources)
    earlier = before.kept if before else 0
    return CacheRow(
        kept=kept,
        written=kept - earlier,
        read=earlier,
        source=source,
        bytes=(kept + source) * engine.cache.token_bytes,
    )


def _cache_size(cache: Cache) -> CacheSize:
    _, heads, _, key = cache.keys[0].shape
    return CacheSize(
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
    job: GenerationJob,
    id: str,
    ids: Sequence[int],
    stopped: Stopped,
    engine: Engine,
) -> GenerationRow:
    prompt = list(job.prompts[0])
    tokens = tokenize_ids(model, [*prompt, *ids]).tokens
    return GenerationRow(
        generation=id,
        prompt=tokens[: len(prompt)],
        source=[] if job.sources is None else tokenize_ids(model, job.sources[0]).tokens,
        generated=tokens[len(prompt) :],
        text=_decode(model, ids),
        stopped=stopped,
        steps=[],
        room=_cache_size(engine.cache),
        beams=None,
    )


def _decode(model: Model, ids: Sequence[int]) -> str:
    return " ".join(map(str, ids)) if model.tokenizer is None else model.tokenizer.decode(ids)


def _record_attention(model: Model, job: GenerationJob, ids: Sequence[int]) -> Trace:
    """One recorded pass over the same tokens, without the last, which no step reads."""
    target = [*job.prompts[0], *ids[:-1]]
    inputs = target if job.sources is None else (job.sources[0], target)
    return record(model, inputs, keep="decoder.*.weights")


def attention(
    recorded: RecordedGeneration, stack: StackName, layer: int, head: int | None
) -> Tensor:  # (steps, S)
    """The weights behind each choice: one head's, or without a head the mean of the layer's."""
    if recorded.trace is None:
        raise InputError("a beam search has many texts: step through one of them")
    heads = widen(recorded.trace[f"{place(recorded.trace, stack, layer, head)}.weights"])
    rows = heads.mean(0) if head is None else heads[head]
    return rows[len(recorded.row.prompt) - 1 :]


def encoded_attention(
    recorded: RecordedGeneration, stack: StackName, layer: int, head: int | None
) -> Tensor:  # (steps, S)
    return to_bytes(attention(recorded, stack, layer, head))


def attention_rows(
    recorded: RecordedGeneration, stack: StackName, layer: int, head: int | None
) -> StepAttention:
    """The same with all digits, each row as long as the tokens before its step."""
    first = len(recorded.row.prompt)
    weights = attention(recorded, stack, layer, head)
    ends = [None if stack == "cross" else first + step for step in range(len(weights))]
    return StepAttention(
        weights=[row[:end].tolist() for row, end in zip(weights, ends, strict=True)]
    )


def _beam_search(
    model: Model, job: GenerationJob, request: GenerationRequest, id: str, progress: JobMonitor
) -> RecordedGeneration:
    if request.taken:
        raise InputError("taken: a beam search takes no chosen tokens: write num_beams = 1")
    engine = job.engine()
    recorder = _BeamRecorder(model, engine, progress, request.max_new_tokens)
    best = beam(
        engine, job.prompts, job.settings, job.sources, job.tokenizer, watch=recorder.add
    )[0][0]  # fmt: skip
    beams = BeamSearch(
        nodes=recorder.nodes,
        best=[_beam_result(model, text) for text in recorder.pool],
        caches=recorder.caches,
        penalty=job.settings.length_penalty,
    )
    row = _row(model, job, id, best.ids, best.stopped, engine)
    return RecordedGeneration(id, request, row.model_copy(update={"beams": beams}), None)


def _beam_result(model: Model, text: Generation) -> BeamResult:
    return BeamResult(
        ids=list(text.ids),
        text=_decode(model, text.ids),
        score=text.score or 0.0,
        stopped=text.stopped,
    )


@dataclass(eq=False)
class _BeamRecorder:
    """Records every candidate of a beam search."""

    model: Model
    engine: Engine
    progress: JobMonitor
    most: int  # tokens
    nodes: list[BeamNode] = field(default_factory=list)
    caches: list[CacheRow] = field(default_factory=list)
    pool: list[Generation] = field(default_factory=list)
    beams: list[int | None] = field(default_factory=list)  # the last node of each beam

    def add(self, step: BeamStep) -> None:
        self.progress.report("token", len(self.caches), self.most)
        before = self.caches[-1] if self.caches else None
        self.caches.append(_cache_row(self.engine, before))
        self.pool = step.pools[0]
        texts = {text.ids: text for text in self.pool}
        number, beams = len(self.caches) - 1, self.beams or [None] * step.order.shape[1]
        places: dict[int, int] = {}
        for c, total in enumerate(step.candidates.sums[0].tolist()):
            if total <= IMPOSSIBLE / 2:  # an empty beam
                continue
            parent = beams[int(step.candidates.parents[0, c])]
            token = int(step.candidates.tokens[0, c])
            done = texts.get((*self._ids(parent), token))
            going = step.going[0] and c in step.order[0] and not step.ended[0, c]
            places[c] = len(self.nodes)
            self.nodes.append(
                BeamNode(
                    turn=number,
                    parent=parent,
                    text=token_text(self.model, token),
                    token=token,
                    sum=total,
                    logprob=float(step.candidates.logprobs[0, c]),
                    state="done" if done else "kept" if going else "dropped",
                    score=done.score if done else None,
                )
            )
        self.beams = [places.get(int(c)) for c in step.order[0]]

    def _ids(self, node: int | None) -> tuple[int, ...]:
        ids: tuple[int, ...] = ()
        while node is not None:
            ids = (self.nodes[node].token, *ids)
            node = self.nodes[node].parent
        return ids
