"""The work of one request, divided into units: one text each, which a scheduler runs in batches."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from glassformer.asgi.requests import Refused
from glassformer.generate.generation import Generation, Stopped
from glassformer.generate.job import GenerationJob
from glassformer.generate.sampling import Choice, Request

Lane = Literal["call", "text", "beams"]  # flat batches; tokens one by one; beam search
LATE = "the request did not finish before its deadline: send less, or later"


@dataclass(eq=False)
class Unit:
    """One text of a request."""

    work: Work
    number: int  # within the request
    tokens: int  # that it counts for in the queue
    size: float  # that it counts for in a batch
    request: Request | None = None  # of generation
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[tuple[tuple[int, float], ...]] = field(default_factory=list)


class Outbox:
    """Calls for the event loop, collected in the scheduler's thread and delivered together.

    Each delivery wakes the loop, which then holds Python's lock for a while.
    """

    def __init__(self) -> None:
        self.calls: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self.calls.setdefault(loop, []).append(call)

    def flush(self) -> None:
        while self.calls:
            loop, calls = self.calls.popitem()
            with suppress(RuntimeError):  # the loop has ended: nobody waits
                loop.call_soon_threadsafe(_call_all, calls)


def _call_all(calls: Sequence[Callable[[], None]]) -> None:
    for call in calls:
        call()


class Work:
    """One request. The event loop waits for `result`; the scheduler's thread completes units.

    Args:
        client: whose turn it takes in the queue
        deadline: as `time.monotonic` counts
    """

    lane: Lane
    group: Hashable = None  # units of a lane with equal groups may share a batch

    def __init__(self, client: str, deadline: float) -> None:
        self.client, self.deadline = client, deadline
        self.loop = asyncio.get_running_loop()
        self.result: asyncio.Future[list[Any]] = self.loop.create_future()
        self.cancelled = False  # nobody waits for it
        self.units: list[Unit] = []
        self.results: dict[int, Any] = {}  # by the number of the unit
        self.outbox = Outbox()  # that of the scheduler, when the work is queued

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)

    @property
    def prompt_tokens(self) -> int:
        """The tokens that the model reads for it."""
        return self.tokens

    @property
    def over(self) -> bool:
        """Whether it has ended or is late. That may change between two reads of this property."""
        return self.cancelled or self.result.done() or time.monotonic() > self.deadline

    def ends(self, now: float) -> bool:
        """Whether its client has left, or it is late; `now` as `time.monotonic` counts."""
        return self.cancelled or now > self.deadline

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def complete(self, unit: Unit, value: Any) -> None:
        """Called in the scheduler's thread."""
        self.results[unit.number] = value
        if len(self.results) == len(self.units):
            every = [self.results[number] for number in range(len(self.units))]
            self.outbox.add(self.loop, partial(self._resolve, every))

    def fail(self, error: Exception) -> None:
        """Called in the scheduler's thread: the whole request fails, unless it has ended."""
        self.outbox.add(self.loop, partial(self._reject, error))

    def _resolve(self, every: list[Any]) -> None:
        if not self.result.done():
            self.result.set_result(every)

    def _reject(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # it may be that nobody reads it any more


class CallWork(Work):
    """Texts for one call of a model, such as embed; those of several requests run together.

    Args:
        items: texts, or pairs of texts
        counts: the tokens of each
        options: of the call; requests with equal ones share a batch
        alone: each item is a batch of its own
    """

    lane: Lane = "call"

    def __init__(
        self, client: str, deadline: float, call: str, items: Sequence[Any],
        counts: Sequence[int], options: Mapping[str, Any], *, alone: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(client, deadline)
        self.call, self.items = call, items
        self.options = tuple(sorted(options.items()))
        self.group = (call, self.options)
        for number, count in enumerate(counts):
            size = math.inf if alone else max(1, count)
            self.units.append(Unit(self, number, max(1, count), size))


class GenerationWork(Work):
    """Texts to generate, with continuous batching.

    Args:
        job: its prompts and settings
        streams: deliver every token, in `choices`
        limit: the most tokens of a text that the model's engine has room for
    """

    def __init__(
        self, client: str, deadline: float, job: GenerationJob, *, limit: int, streams: bool = False
    ) -> None:
        super().__init__(client, deadline)
        self.job = job
        # None: the request has failed, and `result` says why.
        self.choices: asyncio.Queue[tuple[int, Choice] | None] | None = None
        if streams:
            self.choices = asyncio.Queue()
        beams = job.settings.num_beams
        requests = list(job.requests())
        self.lane: Lane = "text"
        if beams > 1:  # all texts of a prompt come from one search
            self.lane, self.group = "beams", job.settings
            requests = [each for each in requests if each.sample == 0]
        for number, each in enumerate(requests):
            length = max(len(each.prompt), len(each.source or ()))
            if length > limit:
                raise Refused(
                    400, f"the prompt has {length} tokens and this server reads at most {limit}"
                )
            room = min(each.limit, limit + 1 - len(each.prompt))
            own = Request(each.number, each.prompt, room, each.source, each.sample, job.settings)
            read = len(each.prompt) + len(each.source or ())
            # A translation may be as long as the model allows, and is about as long as its source.
            written = room if each.source is None else min(room, 2 * len(each.source) + 10)
            self.units.append(Unit(self, number, read + written * beams, length * beams, own))

    @property
    def prompt_tokens(self) -> int:
        both = [(unit.request.prompt, unit.request.source) for unit in self.units if unit.request]
        return sum(len(prompt) + len(source or ()) for prompt, source in both)

    def add(self, unit: Unit, choice: Choice) -> None:
        """Called in the scheduler's thread, for every token."""
        unit.ids.append(choice.token)
        if choice.logprob is not None:
            unit.logprobs.append(choice.logprob)
            unit.top.append(choice.top)
        if choice.stopped is not None:
            self.complete(unit, self._generation(unit, choice.stopped))

    def stream(self, choices: Sequence[tuple[int, Choice]]) -> None:
        """Called in the scheduler's thread: tokens of one step, each with its unit's number."""
        self.outbox.add(self.loop, partial(self._put, choices))

    def _put(self, choices: Sequence[tuple[int, Choice]]) -> None:
        assert self.choices is not None  # noqa: S101 - it streams
        for each in choices:
            self.choices.put_nowait(each)

    def _reject(self, error: Exception) -> None:
        super()._reject(error)
        if self.choices is not None:
            self.choices.put_nowait(None)

    def _generation(self, unit: Unit, stopped: Stopped) -> Generation:
        score = sum(unit.logprobs) if self.job.settings.logprobs else None
        return Generation(
            tuple(unit.ids), stopped, score, tuple(unit.logprobs), top_logprobs=tuple(unit.top)
        )


def generation_of(unit: Unit) -> GenerationWork:
    assert isinstance(unit.work, GenerationWork)  # noqa: S101 - its lane says so
    return unit.work


def call_of(unit: Unit) -> CallWork:
    assert isinstance(unit.work, CallWork)  # noqa: S101 - its lane says so
    return unit.work
