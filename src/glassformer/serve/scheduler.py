"""One thread a model: it takes units from the queue and runs them in batches.

queue ── text ──→ a running batch: texts join and leave it between two steps
      ── beams ─→ beam searches of the same settings, together
      ── call ──→ a flat batch of many texts, whatever their lengths
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

import torch

from glassformer.asgi.requests import Refused
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.generate.engine import Engine
from glassformer.generate.job import generate
from glassformer.generate.prefixes import PrefixStore
from glassformer.generate.sampling import Choice, RunningBatch
from glassformer.generate.settings import Settings
from glassformer.loaded import Model
from glassformer.serve.calls import NotFinite, run_call
from glassformer.serve.logs import LOG
from glassformer.serve.queueing import FairQueue
from glassformer.serve.work import LATE, CallWork, GenerationWork, Lane, Outbox, Unit, Work

SLOTS = {"cpu": 16, "cuda": 64}  # texts that are generated at once
QUEUE_TOKENS = {"cpu": 32_768, "cuda": 524_288}
BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}  # of a flat batch, and of a beam search
FAILED = "the model failed on this request: see the server's log"
PREFIX_CONTEXTS = 2  # texts of full length whose beginnings are kept for others
MAX_CONTEXT = 4_096  # tokens, if the caller does not choose
WAIT = 0.5  # seconds, if nothing happens
DROP_SECONDS = 0.05  # between two searches of the queue for requests that are late
JOIN_SECONDS = 0.1  # the most that a text waits for others, so that prompts are read together
MAX_UNITS = 4_096  # of a flat batch


class Scheduler(Thread):
    """Runs the work for one model; `submit` is called in the event loop.

    Args:
        slots: texts that are generated at once
        queue_tokens: the bound of the queue
        context: the most tokens of a generated text, the prompt included
    """

    def __init__(
        self, model: Model, name: str, *, slots: int | None = None,
        queue_tokens: int | None = None, context: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name=f"scheduler of {name}", daemon=True)
        kind = model.device.type
        self.model, self.model_name = model, name
        self.slots = slots or SLOTS.get(kind, 16)
        self.context = min(model.config.max_length, context or MAX_CONTEXT)
        self.batch_tokens = BATCH_TOKENS.get(kind, 16_384)
        self.queue = FairQueue(queue_tokens or QUEUE_TOKENS.get(kind, 65_536))
        # A translation's prompt is one token, and its source is read whole.
        self.prefixes: PrefixStore | None = None
        if model.config.family == "decoder":
            self.prefixes = PrefixStore(PREFIX_CONTEXTS * self.context)
        self.batch: RunningBatch | None = None
        self.running: dict[int, Unit] = {}  # by the id of the request in the batch
        self.closing = False
        self.outbox = Outbox()
        self.current: list[Unit] = []  # taken from the queue in this turn
        self.last_drop = 0.0  # when the queue was searched for requests that are late
        self.next_join = 0.0  # when the running batch may read prompts again
        self.steps = 0  # of the running batch
        self.done_tokens, self.busy_seconds = 0, 0.0

    def submit(self, work: Work) -> None:
        """Queue a request; refused with 429 if there is no room, with 503 if the model leaves."""
        with self.queue.changed:
            if self.closing:
                raise Refused(503, "this model is being unloaded: choose another one")
            work.outbox = self.outbox
            joined = self.queue.put(work)
        if not joined:
            raise self.overloaded()

    def overloaded(self) -> Refused:
        seconds = str(self.retry_after())
        line = f"the queue of this model is full: try again in {seconds} s"
        return Refused(429, line, {"retry-after": seconds})

    def retry_after(self) -> int:
        """Seconds until the queue is half empty, by the speed so far."""
        speed = self.done_tokens / self.busy_seconds if self.busy_seconds > 1 else 5_000
        return max(1, min(60, round(self.queue.tokens / 2 / max(speed, 1.0))))

    def close(self) -> None:
        """Finish what was accepted, then end."""
        with self.queue.changed:
            self.closing = True
            self.queue.changed.notify()

    def run(self) -> None:
        while True:
            with self.queue.changed:
                if not self.queue.tokens and not self.running:
                    if self.closing:
                        return
                    self.queue.changed.wait(WAIT)
            start = time.monotonic()
            try:
                tokens = self._turn()
            except Exception as error:  # whatever it is, nobody waits forever
                self._fail([*self.running.values(), *self.current], error)
                self.running, self.batch, tokens = {}, None, 0
                self.outbox.flush()
            if tokens:
                self.done_tokens += tokens
                self.busy_seconds += time.monotonic() - start

    def _turn(self) -> int:
        """A step of the running batch, a beam search and a flat batch; returns their tokens."""
        self.current = []
        tokens = 0
        for part in (self._drop, self._texts, self._beams, self._calls):
            tokens += part()
            self.outbox.flush()
        return tokens

    def _drop(self) -> int:
        """Requests that are late fail; their texts, and those of clients that left, are dropped."""
        now = time.monotonic()
        if now - self.last_drop > DROP_SECONDS:
            self.last_drop = now
            for work in self.queue.drop():
                work.fail(Refused(504, LATE))
        over = [unit for unit in self.running.values() if unit.work.over]
        if over and self.batch is not None:
            for unit in over:
                unit.work.fail(Refused(504, LATE))
                del self.running[id(unit.request)]
            self.batch.leave([unit.request for unit in over if unit.request is not None])
        return 0

    def _texts(self) -> int:
        """One step of the running batch; returns the tokens that it generated."""
        if 2 * len(self.running) < self.slots or time.monotonic() >= self.next_join:
            joining = self._take("text", self.slots - len(self.running))
            if joining:
                start = time.monotonic()
                self._join(joining)
                # While half of the slots are busy, those that come meanwhile are read together:
                # reading short prompts takes a sixth of the time, and long ones at most half.
                end = time.monotonic()
                spent = end - start
                self.next_join = end + min(5 * spent, max(spent, JOIN_SECONDS))
        if not self.running or self.batch is None:
            return 0
        self.steps += 1
        try:
            choices = list(self._running_batch(0).advance())
        except Exception as error:
            self._fail(list(self.running.values()), error)
            self.running, self.batch = {}, None
            return 0
        self._deliver(choices)
        return len(choices)

    def _deliver(self, choices: Sequence[Choice]) -> None:
        streamed: dict[GenerationWork, list[tuple[int, Choice]]] = {}
        for choice in choices:
            unit = self.running[id(choice.request)]
            work = _generation(unit)
            if not choice.finite:
                work.fail(Refused(424, "the model computed NaN for this request"))
            else:
                work.add(unit, choice)
                if work.choices is not None:
                    streamed.setdefault(work, []).append((unit.number, choice))
            if choice.stopped is not None or not choice.finite:
                del self.running[id(choice.request)]
        if not self.running and not all(choice.finite for choice in choices):
            self.batch = None  # its free slots may hold NaN, too
        for work, own in streamed.items():
            work.stream(own)

    def _take(self, lane: Lane, units: int, size: float = math.inf) -> list[Unit]:
        """Units of the queue for one batch; requests that are over fail instead."""
        batch = []
        for unit in self.queue.take(lane, units, size):
            if unit.work.over:
                unit.work.fail(Refused(504, LATE))
            else:
                batch.append(unit)
        self.current += batch
        return batch

    def _join(self, units: Sequence[Unit]) -> None:
        """Read the prompts of texts, which join the running batch."""

        def read(units: Sequence[Unit]) -> None:
            batch = self._running_batch(len(units))
            batch.join([unit.request for unit in units if unit.request is not None])
            self.running |= {id(unit.request): unit for unit in units}

        self._one_by_one_if_it_fails(units, read)

    def _one_by_one_if_it_fails(
        self, units: Sequence[Unit], run: Callable[[Sequence[Unit]], None]
    ) -> None:
        """Run units together; if that fails, each by itself, so that one text harms no other."""
        try:
            run(units)
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError):
                torch.cuda.empty_cache()
            if len(units) == 1:
                self._fail(units, error)
                return
        else:
            return
        for unit in units:
            self._one_by_one_if_it_fails([unit], run)

    def _running_batch(self, joining: int) -> RunningBatch:
        """The batch, with room for more texts. On a GPU its size is fixed: CUDA graphs need that;
        on a CPU it follows the number of texts, in powers of two."""
        model = self.model
        need = len(self.running) + joining
        size = min(self.slots, 1 << (need - 1).bit_length())
        if self.batch is None:
            fixed = model.device.type == "cuda"
            source = self.context if model.config.family == "seq2seq" else 0
            engine = Engine(
                model.task, slots=self.slots if fixed else size, capacity=self.context,
                memory_capacity=source, kept=fixed, prefixes=self.prefixes,
            )  # fmt: skip
            usual = Settings.model_validate({})  # each request has its own
            self.batch = RunningBatch(engine, usual, model.tokenizer, checks_finite=True)
        elif self.batch.engine.shrinks and (
            need > len(self.batch.texts) or size * 4 <= len(self.batch.texts)
        ):
            self.batch.resize(size)
        return self.batch

    def _fail(self, units: Sequence[Unit], error: Exception) -> None:
        """Tell the clients. What is not a user's mistake is kept for the log."""
        if isinstance(error, CheckpointError):  # a mistake of the model, not of the client
            error = Refused(424, str(error))
        elif not isinstance(error, GlassformerError | Refused):
            LOG.error("the model %s failed", self.model_name, exc_info=error)
            line = "the model computed NaN or infinity" if isinstance(error, NotFinite) else FAILED
            error = Refused(424, line)
        for work in {unit.work: None for unit in units}:
            work.fail(error)

    def _beams(self) -> int:
        """Beam searches of the same settings, together; returns their tokens."""
        units = self._take("beams", self.slots, self.batch_tokens)
        if units:
            self._one_by_one_if_it_fails(units, self._search)
        return sum(unit.tokens for unit in units)

    @staticmethod
    def _search(units: Sequence[Unit]) -> None:
        requests = [unit.request for unit in units if unit.request is not None]
        first = _generation(units[0]).job
        job = replace(
            first, prompts=[each.prompt for each in requests],
            sources=None if first.sources is None else [each.source or () for each in requests],
            batch_size=len(units) * first.settings.num_beams,
        )  # fmt: skip
        texts, best = generate(job), first.settings.num_return_sequences
        for i, unit in enumerate(units):
            unit.work.complete(unit, texts[i * best : (i + 1) * best])

    def _calls(self) -> int:
        """A flat batch of texts for the same call with the same options; returns their tokens."""
        units = self._take("call", MAX_UNITS, self.batch_tokens)
        if units:
            self._one_by_one_if_it_fails(units, self._run_call)
        return sum(unit.tokens for unit in units)

    def _run_call(self, units: Sequence[Unit]) -> None:
        works = [_call(unit) for unit in units]
        items: list[Any] = [
            work.items[unit.number] for work, unit in zip(works, units, strict=True)
        ]
        results = run_call(self.model, works[0].call, items, works[0].options)
        for work, unit, result in zip(works, units, results, strict=True):
            work.complete(unit, result)


def _generation(unit: Unit) -> GenerationWork:
    assert isinstance(unit.work, GenerationWork)  # noqa: S101 - its lane says so
    return unit.work


def _call(unit: Unit) -> CallWork:
    assert isinstance(unit.work, CallWork)  # noqa: S101 - its lane says so
    return unit.work
