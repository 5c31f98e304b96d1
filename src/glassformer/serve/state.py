"""What the routes share: the models, keys and counters; and how a request becomes work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from glassformer.asgi.requests import Refused
from glassformer.generate.generation import Generation
from glassformer.generate.job import GenerationJob
from glassformer.serve.explain import MAX_TOKENS
from glassformer.serve.host import Host, HostedModel
from glassformer.serve.keys import ClientKey, Keys
from glassformer.serve.metrics import Metrics
from glassformer.serve.work import LATE, CallWork, GenerationWork, Work

SECONDS = 120.0  # that a request may take, if the client does not choose less
MANY_CHARACTERS = 20_000  # are tokenized in another thread, not in the event loop
MAX_TEXTS = 2_048  # of a request
MAX_EXPLAINED = 16  # texts of a request that are explained
TRUNCATING = ("embed", "rank", "classify")  # calls that read no more of a text than fits


class ClientGone(Exception):
    """The client has disconnected: nobody waits for the response."""


@dataclass(eq=False)
class RequestInfo:
    """What is known about a request before a route sees it, and what its log line needs."""

    id: str
    client: str
    deadline: float
    key: ClientKey | None = None
    model: str = ""
    tokens: int = 0


@dataclass(eq=False)
class ServeState:
    host: Host
    keys: Keys = field(default_factory=lambda: Keys([]))
    seconds: float = SECONDS
    template: str | None = None  # a Jinja template for chats, that the user named
    workers: int = 1  # processes of this server

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.host)

    async def call(
        self, request: Request, model: str | None, call: str, items: Sequence[Any], *,
        options: Mapping[str, Any] | None = None, truncates: bool = True,
    ) -> tuple[list[Any], list[int]]:  # fmt: skip
        """The result of a call for each item, and the tokens of each item.

        Args:
            truncates: cut what is too long for the model; refused with 413 if not
        """
        hosted = self.host.choose(model, call)
        self.check_room(request, hosted)
        counts = await self.counts(hosted, items)
        most = min(hosted.model.recipe.max_length or 1 << 62, hosted.model.config.max_length)
        if not truncates and max(counts, default=0) > most:
            raise Refused(413, f"a text has {max(counts)} tokens and the model reads {most}")
        info = info_of(request)
        read = [min(count, most) for count in counts] if call in TRUNCATING else counts
        work = CallWork(info.client, info.deadline, call, items, read, options or {})
        return await self.finish(request, hosted, work), counts

    async def explain(
        self, request: Request, hosted: HostedModel, items: Sequence[Any]
    ) -> list[Any]:
        """The explanation of each text, pair, or list of token ids."""
        texts = [item for item in items if not isinstance(item, list)]
        counts = iter(await self.counts(hosted, texts))
        lengths = [len(item) if isinstance(item, list) else next(counts) for item in items]
        self.check_explained(lengths)
        info = info_of(request)
        work = CallWork(info.client, info.deadline, "explain", items, lengths, {}, alone=True)
        return await self.finish(request, hosted, work)

    def check_explained(self, lengths: Sequence[int]) -> None:
        """Refused if the explanations would be too many or too long: before anything is computed.

        Args:
            lengths: the tokens of each text
        """
        if len(lengths) > MAX_EXPLAINED:
            line = f"the request has {len(lengths)} texts: send at most {MAX_EXPLAINED}"
            raise Refused(400, f"explain: {line}")
        if max(lengths, default=0) > MAX_TOKENS:
            line = f"a text may have {max(lengths)} tokens: write at most {MAX_TOKENS}"
            raise Refused(400, f"explain: {line}")

    async def counts(self, hosted: HostedModel, items: Sequence[Any]) -> list[int]:
        """The tokens of each text, or pair of texts."""
        tokenizer = hosted.model.tokenizer
        assert tokenizer is not None  # noqa: S101 - `Host.load` refuses models without one

        def count() -> list[int]:
            return [len(encoding.ids) for encoding in tokenizer.encode_all(list(items))]

        size = sum(len(part) for item in items for part in (item if _pair(item) else (item,)))
        return await asyncio.to_thread(count) if size > MANY_CHARACTERS else count()

    async def generate(
        self, request: Request, hosted: HostedModel, job: GenerationJob
    ) -> list[Generation]:
        """All texts of a job, in its order."""
        work = self.generation(request, hosted, job)
        texts = await self.finish(request, hosted, work)
        if job.settings.num_beams > 1:
            texts = [text for best in texts for text in best]
        finished = [job.finish(text) for text in texts]
        self.count_generated(hosted, finished)
        written = sum(len(text.ids) for text in finished)
        self.refund(request, work, written * job.settings.num_beams)
        return finished

    @staticmethod
    def refund(request: Request, work: GenerationWork, generated: int) -> None:
        """Return the tokens of the key's budget that were reserved and not generated."""
        key = info_of(request).key
        if key is not None:
            key.spend(min(0, work.prompt_tokens + generated - work.tokens))

    def generation(
        self, request: Request, hosted: HostedModel, job: GenerationJob, *, streams: bool = False
    ) -> GenerationWork:
        """The work of a job that is not queued yet."""
        info = info_of(request)
        limit = hosted.scheduler.context
        return GenerationWork(info.client, info.deadline, job, limit=limit, streams=streams)

    def submit(self, request: Request, hosted: HostedModel, work: Work) -> None:
        """Queue the work; refused with 429 if the queue is full or the key's budget is spent."""
        info = info_of(request)
        info.model, info.tokens = hosted.name, info.tokens + work.tokens
        if info.key is not None:
            info.key.check(work.tokens)
        hosted.scheduler.submit(work)
        if info.key is not None:
            info.key.spend(work.tokens)
        self.metrics.prompt_tokens.labels(hosted.name).inc(work.prompt_tokens)

    def count_generated(self, hosted: HostedModel, texts: Sequence[Generation]) -> None:
        for text in texts:
            self.metrics.generated_tokens.labels(hosted.name).inc(len(text.ids))
            reason = "length" if text.stopped == "length" else "stop"
            self.metrics.finished.labels(hosted.name, reason).inc()

    def check_room(self, request: Request, hosted: HostedModel) -> None:
        """Refused with 429 before anything is tokenized, if the queue is full."""
        if self.host.draining:
            raise Refused(503, "the server is shutting down: try another one")
        if hosted.scheduler.queue.full(info_of(request).client):
            raise hosted.scheduler.overloaded()

    async def finish(self, request: Request, hosted: HostedModel, work: Work) -> list[Any]:
        """Queue the work and wait for it; it is dropped if the client leaves."""
        if not work.units:
            return []
        self.submit(request, hosted, work)
        gone = asyncio.create_task(disconnected(request))
        try:
            await asyncio.wait(
                (gone, work.result), timeout=work.seconds_left,
                return_when=asyncio.FIRST_COMPLETED,
            )  # fmt: skip
            if work.result.done():
                return work.result.result()
            raise ClientGone if gone.done() else Refused(504, LATE)
        finally:
            work.cancelled = True
            gone.cancel()


def info_of(request: Request) -> RequestInfo:
    info: RequestInfo = request.scope["glassformer"]
    return info


def new_info(id: str, client: str, key: ClientKey | None, seconds: float) -> RequestInfo:
    return RequestInfo(id, client, time.monotonic() + seconds, key)


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _pair(item: Any) -> bool:
    return isinstance(item, tuple)
