"""The work of one request, divided into units: one text each, which a scheduler runs in batches."""

from __future__ import annotations

import asyncio
import time
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    request: Request | None = None  # of generation
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[tuple[tuple[int, float], ...]] = field(default_factory=list)


class Work(ABC):
    """One request. The event loop waits for `result`; the scheduler's thread completes units.

    Args:
        client: whose turn it takes in the queue
        deadline: as `time.monotonic` counts
    """

    lane: Lane

    def __init__(self, client: str, deadline: float) -> None:
        self.client, self.deadline = client, deadline
        self.loop = asyncio.get_running_loop()
        self.result: asyncio.Future[list[Any]] = self.loop.create_future()
        self.left = False  # nobody waits for it
        self.units: list[Unit] = []
        self.results: dict[int, Any] = {}  # by the number of the unit

    @property
    def tokens(self) -> int:
        return sum(unit.tokens for unit in self.units)

    @property
    def prompt_tokens(self) -> int:
        """The tokens that the model reads for it."""
        return self.tokens

    @property
    def ended(self) -> bool:
        """Whether nobody needs what is left of it."""
        return self.left or self.result.done()

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def complete(self, unit: Unit, value: Any) -> None:
        """Called in the scheduler's thread."""
        self.results[unit.number] = value
        if len(self.results) == len(self.units):
            every = [self.results[number] for number in range(len(self.units))]
            self.loop.call_soon_threadsafe(self._resolve, every)

    def fail(self, error: Exception) -> None:
        """Called in the scheduler's thread: the whole request fails."""
        self.loop.call_soon_threadsafe(self._reject, error)

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
    """

    lane: Lane = "call"

    def __init__(
        self, client: str, deadline: float, call: str, items: Sequence[Any],
        counts: Sequence[int], options: Mapping[str, Any],
    ) -> None:  # fmt: skip
        super().__init__(client, deadline)
        self.call, self.items = call, items
        self.options = tuple(sorted(options.items()))
        self.units = [Unit(self, number, max(1, count)) for number, count in enumerate(counts)]


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
        self.choices: asyncio.Queue[tuple[int, Choice]] | None = None
        if streams:
            self.choices = asyncio.Queue()
        self.lane = "beams" if job.settings.num_beams > 1 else "text"
        beams = job.settings.num_beams
        if beams > 1:  # all texts of a prompt come from one search
            requests = [each for each in job.requests() if each.sample == 0]
        else:
            requests = list(job.requests())
        for number, each in enumerate(requests):
            length = max(len(each.prompt), len(each.source or ()))
            if length > limit:
                raise Refused(
                    400, f"the prompt has {length} tokens and this server reads at most {limit}"
                )
            room = min(each.limit, limit + 1 - len(each.prompt))
            own = Request(each.number, each.prompt, room, each.source, each.sample, job.settings)
            read = len(each.prompt) + len(each.source or ())
            written = room if each.source is None else min(room, 2 * len(each.source))
            cost = read + written * beams
            self.units.append(Unit(self, number, cost, own))

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

    def _generation(self, unit: Unit, stopped: Stopped) -> Generation:
        score = sum(unit.logprobs) if self.job.settings.logprobs else None
        return Generation(
            tuple(unit.ids), stopped, score, tuple(unit.logprobs), top_logprobs=tuple(unit.top)
        )
