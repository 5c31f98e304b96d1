"""One thread a model: it takes units from the queue and runs them in batches.

queue ── text ──→ a running batch: texts join and leave it between two steps
      ── beams ─→ beam searches of the same settings, together
      ── call ──→ a flat batch of many texts, whatever their lengths
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

import torch

from glassformer.asgi.requests import Refused
from glassformer.errors import GlassformerError
from glassformer.generate.engine import Engine
from glassformer.generate.job import generate
from glassformer.generate.sampling import Choice, RunningBatch
from glassformer.generate.settings import Settings
from glassformer.loaded import Model
from glassformer.serve.calls import NotFinite, run_call
from glassformer.serve.queueing import FairQueue
from glassformer.serve.work import LATE, CallWork, GenerationWork, Lane, Unit, Work
from glassformer.strict import read

LOG = logging.getLogger("glassformer.serve")
SLOTS = {"cpu": 16, "cuda": 64}  # texts that are generated at once
QUEUE_TOKENS = {"cpu": 32_768, "cuda": 524_288}
BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}  # of a flat batch, and of a beam search
FAILED = "the model failed on this request: see the server's log"
MAX_CONTEXT = 4_096  # tokens, if the caller does not choose
WAIT = 0.5  # seconds, if nothing happens
LOOK = 0.05  # seconds between two searches of the queue for requests that are late


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
        self.batch: RunningBatch | None = None
        self.running: dict[int, Unit] = {}  # by the id of the request in the batch
        self.closing = False
        self.looked = 0.0  # when the queue was searched for requests to drop
        self.steps = 0  # of the running batch
        self.done_tokens, self.busy_seconds = 0, 0.0

    def submit(self, work: Work) -> None:
        """Queue a request; refused with 429 if there is no room, with 503 if the model leaves."""
        with self.queue.changed:
            if self.closing:
                raise Refused(503, "this model is being unloaded: choose another one")
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
            self._drop()
            tokens = self._texts() + self._beams() + self._calls()
            if tokens:
                self.done_tokens += tokens
                self.busy_seconds += time.monotonic() - start

    def _drop(self) -> None:
        """Requests that are late fail; their texts, and those of clients that left, are dropped."""
        now = time.monotonic()
        if now - self.looked > LOOK:
            self.looked = now
            for work in self.queue.drop():
                work.fail(Refused(504, LATE))
        over = []
        for unit in self.running.values():
            if unit.work.late and not unit.work.ended:
                unit.work.fail(Refused(504, LATE))
            if unit.work.late or unit.work.ended:
                over.append(unit)
        if over and self.batch is not None:
            self.batch.leave([unit.request for unit in over if unit.request is not None])
            self.running = {key: unit for key, unit in self.running.items() if unit not in over}

    def _texts(self) -> int:
        """One step of the running batch; returns the tokens that it generated."""
        joining = self._taken("text", self.slots - len(self.running))
        if joining:
            self._join(joining)
        if not self.running or self.batch is None:
            return 0
        self.steps += 1
        try:
            choices = list(self.batch.advance())
        except Exception as error:
            self._fail_running(error)
            return 0
        streamed: dict[GenerationWork, list[tuple[int, Choice]]] = {}
        for choice in choices:
            unit = self.running[id(choice.request)]
            work = unit.work
            if not isinstance(work, GenerationWork):
                continue
            if not choice.finite:
                work.fail(Refused(424, "the model computed NaN for this request"))
            else:
                work.add(unit, choice)
                if work.choices is not None:
                    streamed.setdefault(work, []).append((unit.number, choice))
            if choice.stopped is not None or not choice.finite:
                del self.running[id(choice.request)]
        if not all(choice.finite for choice in choices) and not self.running:
            self.batch = None  # its free slots may hold NaN, too
        for work, own in streamed.items():
            work.loop.call_soon_threadsafe(_put_all, work, own)
        return len(choices)

    def _taken(self, lane: Lane, count: int) -> list[Unit]:
        units: list[Unit] = []
        while len(units) < count and (unit := self.queue.take(lane)) is not None:
            if unit.work.late and not unit.work.ended:
                unit.work.fail(Refused(504, LATE))
            elif not unit.work.ended:
                units.append(unit)
        return units

    def _join(self, units: Sequence[Unit]) -> None:
        """Read the prompts. If that fails, each by itself, so that one text harms no other."""
        try:
            batch = self._running_batch(len(units))
            batch.join([unit.request for unit in units if unit.request is not None])
        except Exception as error:
            if len(units) == 1:
                self._fail(units, error)
            else:
                for unit in units:
                    self._join([unit])
        else:
            self.running |= {id(unit.request): unit for unit in units}

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
                memory_capacity=source, kept=fixed,
            )  # fmt: skip
            usual = read(Settings, {})  # each request has its own
            self.batch = RunningBatch(engine, usual, model.tokenizer, checks_finite=True)
        elif self.batch.engine.shrinks and (
            need > len(self.batch.texts) or size * 4 <= len(self.batch.texts)
        ):
            self.batch.resize(size)
        return self.batch

    def _fail_running(self, error: Exception) -> None:
        self._fail(list(self.running.values()), error)
        self.running, self.batch = {}, None

    def _fail(self, units: Sequence[Unit], error: Exception) -> None:
        """Tell the clients. What is not a user's mistake is kept for the log."""
        if not isinstance(error, GlassformerError | Refused):
            LOG.error("the model %s failed", self.model_name, exc_info=error)
            line = "the model computed NaN or infinity" if isinstance(error, NotFinite) else FAILED
            error = Refused(424, line)
        for work in {unit.work: None for unit in units}:
            work.fail(error)

    def _beams(self) -> int:
        """Beam searches of the same settings, together; returns their source tokens."""
        units = self._taken("beams", 1)
        if not units:
            return 0
        first = units[0].work
        if not isinstance(first, GenerationWork):
            return 0
        settings, tokens = first.job.settings, units[0].tokens
        others = []
        while tokens < self.batch_tokens and (taken := self._taken("beams", 1)):
            work = taken[0].work
            if isinstance(work, GenerationWork) and work.job.settings == settings:
                units += taken
                tokens += taken[0].tokens
            else:
                others += taken
                break
        self._search(units)
        if others:
            self._search(others)
        return tokens

    def _search(self, units: list[Unit]) -> None:
        requests = [unit.request for unit in units if unit.request is not None]
        first = units[0].work
        if not isinstance(first, GenerationWork):
            return
        settings = first.job.settings
        job = replace(
            first.job, prompts=[each.prompt for each in requests],
            sources=None if first.job.sources is None else [each.source or () for each in requests],
            batch_size=len(units) * settings.num_beams,
        )  # fmt: skip
        try:
            texts = generate(job)
        except Exception as error:
            if len(units) == 1:
                self._fail(units, error)
            else:
                for unit in units:
                    self._search([unit])
            return
        best = settings.num_return_sequences
        for i, unit in enumerate(units):
            unit.work.complete(unit, texts[i * best : (i + 1) * best])

    def _calls(self) -> int:
        """A flat batch of texts for the same call with the same options."""
        units: list[Unit] = []
        tokens, rest = 0, None
        while tokens < self.batch_tokens and (taken := self._taken("call", 1)):
            if units and _key(taken[0]) != _key(units[0]):
                rest = taken
                break
            units += taken
            tokens += taken[0].tokens
        for group in filter(None, (units, rest)):
            self._run_calls(group)
        return tokens

    def _run_calls(self, units: Sequence[Unit]) -> None:
        work = units[0].work
        if not isinstance(work, CallWork):
            return
        items: list[Any] = [_item(unit) for unit in units]
        try:
            results = run_call(self.model, work.call, items, work.options)
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError):
                torch.cuda.empty_cache()
            if len(units) == 1:
                self._fail(units, error)
            else:
                for unit in units:  # one text harms no other
                    self._run_calls([unit])
            return
        for unit, result in zip(units, results, strict=True):
            unit.work.complete(unit, result)


def _key(unit: Unit) -> object:
    work = unit.work
    return (work.call, work.options) if isinstance(work, CallWork) else None


def _item(unit: Unit) -> Any:
    return unit.work.items[unit.number] if isinstance(unit.work, CallWork) else None


def _put_all(work: GenerationWork, choices: Sequence[tuple[int, Choice]]) -> None:
    if work.choices is not None:
        for each in choices:
            work.choices.put_nowait(each)
