"""One thread a model: it takes units from the queue and runs them in batches.

queue ── text ──→ a running batch: texts join and leave it between two steps
      ── beams ─→ running beam searches of the same settings, in the same way
      ── call ──→ a flat batch of many texts, whatever their lengths
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from threading import Thread
from typing import Any

import torch

from glassformer.asgi.requests import Refused
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.generate.engine import Engine
from glassformer.generate.prefixes import PrefixStore
from glassformer.generate.sampling import Choice, RunningBatch
from glassformer.generate.settings import Settings
from glassformer.loaded import Model
from glassformer.serve.calls import NotFinite, run_call
from glassformer.serve.logs import LOG
from glassformer.serve.queueing import ANY, FairQueue
from glassformer.serve.searches import BeamSearches
from glassformer.serve.work import (
    LATE,
    GenerationWork,
    Lane,
    Outbox,
    Unit,
    Work,
    call_of,
    generation_of,
)

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
        self.searches = BeamSearches(model, self.slots, self.context)
        self.closing = False
        self.outbox = Outbox()
        self.current: list[Unit] = []  # taken from the queue in this turn
        self.last_drop = 0.0  # when the queue was searched for requests that are late
        self.next_join = {"text": 0.0, "beams": 0.0}  # when prompts may be read again
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

    @property
    def busy(self) -> int:
        """Texts that are generated now."""
        return len(self.running) + len(self.searches.running)

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
                if not self.queue.tokens and not self.busy:
                    if self.closing:
                        return
                    self.queue.changed.wait(WAIT)
            start = time.monotonic()
            try:
                tokens = self._turn()
            except Exception as error:  # whatever it is, nobody waits forever
                searching = self.searches.clear()
                self._fail([*self.running.values(), *searching, *self.current], error)
                self.running, self.batch, tokens = {}, None, 0
                self.outbox.flush()
            if tokens or self.busy:  # a step of a search may finish no text
                self.done_tokens += tokens
                self.busy_seconds += time.monotonic() - start

    def _turn(self) -> int:
        """A step of the running batch and of the searches, and a flat batch; returns the tokens."""
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
        # At every step, for every text: it must be cheap.
        over = [unit for unit in self.running.values() if unit.work.ends(now)]
        if over and self.batch is not None:
            for unit in over:
                unit.work.fail(Refused(504, LATE))
                del self.running[id(unit.request)]
            self.batch.leave([unit.request for unit in over if unit.request is not None])
        over = [unit for unit in self.searches.running.values() if unit.work.ends(now)]
        for unit in over:
            unit.work.fail(Refused(504, LATE))
        self.searches.leave(over)
        return 0

    def _texts(self) -> int:
        """One step of the running batch; returns the tokens that it generated."""
        self._join("text", len(self.running), self._read)
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
            work = generation_of(unit)
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

    def _take(
        self, lane: Lane, units: int, size: float = math.inf, *, group: Hashable = ANY
    ) -> list[Unit]:
        """Units of the queue for one batch."""
        batch = [*self._in_time(self.queue.take(lane, units, size, group=group))]
        self.current += batch
        return batch

    @staticmethod
    def _in_time(units: Sequence[Unit]) -> Iterator[Unit]:
        """The units whose clients still wait; requests that are over fail instead."""
        for unit in units:
            if unit.work.over:
                unit.work.fail(Refused(504, LATE))
            else:
                yield unit

    def _join(
        self, lane: Lane, running: int, read: Callable[[Sequence[Unit]], None], **more: Any
    ) -> None:
        """Texts of the queue join a running batch, if they may.

        Args:
            running: how many texts the batch has
            read: reads the prompts
            more: see `_take`
        """
        if 2 * running >= self.slots and time.monotonic() < self.next_join[lane]:
            return
        joining = self._take(lane, self.slots - running, **more)
        if joining:
            start = time.monotonic()
            self._one_by_one_if_it_fails(joining, read)
            # While half of the slots are busy, those that come meanwhile are read together:
            # reading short prompts takes a sixth of the time, and long ones at most half.
            end = time.monotonic()
            spent = end - start
            self.next_join[lane] = end + min(5 * spent, max(spent, JOIN_SECONDS))

    def _read(self, units: Sequence[Unit]) -> None:
        """Read the prompts of texts, which join the running batch."""
        batch = self._running_batch(len(units))
        batch.join([unit.request for unit in units if unit.request is not None])
        self.running |= {id(unit.request): unit for unit in units}

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
        """One step of the beam searches; returns the tokens of those that are finished."""
        searches = self.searches
        room = self.batch_tokens - searches.size
        running = len(searches.running)
        self._join("beams", running, searches.join, size=room, group=searches.group)
        try:
            done = searches.advance()
        except Exception as error:  # of one of them
            failed, full = searches.clear(), isinstance(error, torch.OutOfMemoryError)
        else:
            for unit, texts in done:
                unit.work.complete(unit, texts)
            return sum(unit.tokens for unit, _ in done)
        # After the except block, whose traceback would keep the memory of the batch.
        if full:
            torch.cuda.empty_cache()
        for unit in self._in_time(failed):
            self._one_by_one_if_it_fails([unit], self._search_alone)
            self.outbox.flush()
        return 0

    def _search_alone(self, units: Sequence[Unit]) -> None:
        for unit in units:
            unit.work.complete(unit, self.searches.alone(unit))

    def _calls(self) -> int:
        """A flat batch of texts for the same call with the same options; returns their tokens."""
        units = self._take("call", MAX_UNITS, self.batch_tokens)
        if units:
            self._one_by_one_if_it_fails(units, self._run_call)
        return sum(unit.tokens for unit in units)

    def _run_call(self, units: Sequence[Unit]) -> None:
        works = [call_of(unit) for unit in units]
        items: list[Any] = [
            work.items[unit.number] for work, unit in zip(works, units, strict=True)
        ]
        results = run_call(self.model, works[0].call, items, works[0].options)
        for work, unit, result in zip(works, units, results, strict=True):
            work.complete(unit, result)
