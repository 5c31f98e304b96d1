"""The routes of OpenAI: models, completions, chats and embeddings."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from glassformer.asgi.requests import Refused
from glassformer.errors import GlassformerError
from glassformer.generate.chat import prepare_chat
from glassformer.generate.generation import IncrementalDecoder, Stopped
from glassformer.generate.job import GenerationJob, prepare
from glassformer.generate.sampling import Choice
from glassformer.serve.dialects import openai_error
from glassformer.serve.dialects.openai_schemas import (
    ChatBody,
    CompletionBody,
    EmbeddingAnswer,
    EmbeddingBody,
    EmbeddingRow,
    GenerationAnswer,
    GenerationBody,
    ModelList,
    OpenAIModel,
    Usage,
)
from glassformer.serve.dialects.schemas import OpenAIError, errors
from glassformer.serve.host import HostedModel
from glassformer.serve.state import MANY_CHARACTERS, ServeState, info_of
from glassformer.serve.work import LATE, GenerationWork
from glassformer.text import Tokenizer

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"description": "Events, then [DONE]."}}}}
}
COMPLETION_TOKENS = 16  # if the client does not choose, as with OpenAI


class ScoredToken(NamedTuple):
    """A generated token, as log-probabilities need it."""

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Shape(NamedTuple):
    """How completions and chats differ: names, and what a choice looks like."""

    object: str
    streamed: str
    prefix: str
    choice: Callable[[int, str, str | None, Any], dict[str, Any]]
    delta: Callable[[int, str, str | None, Any], dict[str, Any]]
    logprobs: Callable[[Tokenizer, list[ScoredToken], int], dict[str, Any]]


def router(state: ServeState) -> APIRouter:
    routes = APIRouter(responses=errors(OpenAIError))

    @routes.get("/v1/models", response_model=ModelList)
    async def models() -> ModelList:
        every = state.host.models.values()
        return ModelList(data=[OpenAIModel(id=each.name, created=each.created) for each in every])

    @routes.get("/v1/models/{name:path}", response_model=OpenAIModel)
    async def model_by_name(name: str) -> OpenAIModel:
        hosted = state.host.models.get(name)
        if hosted is None:
            raise Refused(404, f"the model {name!r:.100} does not exist: /v1/models lists them")
        return OpenAIModel(id=hosted.name, created=hosted.created)

    @routes.post("/v1/completions", response_model=GenerationAnswer, responses=STREAM)
    async def completions(request: Request, body: CompletionBody) -> Response:
        hosted = state.host.choose(body.model, "generate")
        model = hosted.model
        prompt = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        options = body.options(body.max_tokens or COMPLETION_TOKENS, body.logprobs)
        state.check_room(request, hosted)
        checked = partial(prepare, model.task, model.tokenizer, model.origin, prompt, options)
        many = sum(1 if isinstance(part, int) else len(part) for part in prompt) > MANY_CHARACTERS
        job = await asyncio.to_thread(checked) if many else checked()
        return await _respond(state, request, hosted, job, body, TEXT)

    @routes.post("/v1/chat/completions", response_model=GenerationAnswer, responses=STREAM)
    async def chat(request: Request, body: ChatBody) -> Response:
        hosted = state.host.choose(body.model, "generate")
        model, tokenizer = hosted.model, hosted.model.tokenizer
        assert tokenizer is not None  # noqa: S101 - `Host.load` refuses models without one
        if state.template is None and not hosted.can_chat:
            line = "use /v1/completions, or start the server with --template FILE"
            raise Refused(
                400, f"the model {hosted.name!r:.100} has no chat template that is known: {line}"
            )
        if body.top_logprobs is not None and not body.logprobs:
            raise Refused(400, "top_logprobs: write logprobs = true, too")
        logprobs = (body.top_logprobs or 0) if body.logprobs else None
        options = body.options(body.max_completion_tokens or body.max_tokens, logprobs)
        messages = [
            {"role": {"developer": "system"}.get(m.role, m.role), "content": m.text}
            for m in body.messages
        ]
        state.check_room(request, hosted)
        job = await asyncio.to_thread(
            prepare_chat, model.task, tokenizer, model.origin, messages, options, state.template
        )
        return await _respond(state, request, hosted, job, body, CHAT)

    @routes.post("/v1/embeddings", response_model=EmbeddingAnswer)
    async def embeddings(request: Request, body: EmbeddingBody) -> Response:
        texts = [body.input] if isinstance(body.input, str) else body.input
        rows, counts = await state.call(request, body.model, "embed", texts, truncates=False)
        vectors = [np.asarray(row, dtype="<f4") for row in rows]
        if body.dimensions is not None:
            vectors = [shortened(vector, body.dimensions) for vector in vectors]
        as_base64 = body.encoding_format == "base64"
        data = [
            EmbeddingRow(index=i, embedding=_base64(vector) if as_base64 else vector.tolist())
            for i, vector in enumerate(vectors)
        ]
        usage = Usage(prompt_tokens=sum(counts), total_tokens=sum(counts))
        answer = EmbeddingAnswer(model=body.model, data=data, usage=usage)
        return Response(answer.model_dump_json(), media_type="application/json")

    return routes


def shortened(vector: Any, dimensions: int) -> Any:
    """The first numbers of a vector, at length one: for models trained with nested sizes."""
    if dimensions > len(vector):
        raise Refused(400, f"dimensions = {dimensions}: the vectors have {len(vector)} numbers")
    part = vector[:dimensions]
    return part / max(float(np.linalg.norm(part)), 1e-12)


def _base64(vector: Any) -> str:
    return base64.b64encode(vector.tobytes()).decode()


async def _respond(
    state: ServeState, request: Request, hosted: HostedModel, job: GenerationJob,
    body: GenerationBody, shape: Shape,
) -> Response:  # fmt: skip
    if body.copies * len(job.prompts) * job.settings.num_return_sequences > 1_024:
        raise Refused(400, "n: a request may generate at most 1,024 texts: write less")
    if body.explain:
        state.check_explained([len(job.prompts[0]) + job.settings.max_new_tokens])
    if body.stream:
        work = state.generation(request, hosted, job, streams=True)
        state.submit(request, hosted, work)
        pieces = _stream(state, request, hosted, work, body, shape)
        return EventStream(pieces, work)
    texts = await state.generate(request, hosted, job)
    tokenizer = hosted.model.tokenizer
    assert tokenizer is not None  # noqa: S101 - `Host.load` refuses models without one
    choices: list[dict[str, Any]] = []
    for text in texts:
        logprobs = None
        if job.settings.logprobs:
            rows = zip(text.ids, text.logprobs, text.top_logprobs, strict=True)
            tokens = [ScoredToken(*row) for row in rows]
            if text.stopped == "stop":
                tokens = _within(tokenizer, tokens, len(text.text))
            logprobs = shape.logprobs(tokenizer, tokens, 0)
        for _ in range(body.copies):
            reason = _reason(text.stopped)
            choices.append(shape.choice(len(choices), text.text, reason, logprobs))
    answer: dict[str, Any] = {
        **_head(request, hosted, shape.prefix, shape.object), "choices": choices,
        "usage": _usage(job, sum(len(text.ids) for text in texts) * body.copies),
    }  # fmt: skip
    if body.explain:
        whole = [*job.prompts[0], *texts[0].ids]
        answer["explain"] = (await state.explain(request, hosted, [whole]))[0]
    return Response(json.dumps(answer, ensure_ascii=False), media_type="application/json")


async def _stream(
    state: ServeState, request: Request, hosted: HostedModel, work: GenerationWork,
    body: GenerationBody, shape: Shape,
) -> AsyncIterator[str]:  # fmt: skip
    """Server-sent events, then [DONE]: one for each token that completes some text, or for several
    tokens if the client reads more slowly than they come."""
    job, tokenizer, start = work.job, hosted.model.tokenizer, time.monotonic()
    assert tokenizer is not None and work.choices is not None  # noqa: S101 - as above
    head = _head(request, hosted, shape.prefix, shape.streamed)
    usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    head |= {"usage": None} if usage else {}
    decoders = [IncrementalDecoder(tokenizer, job.settings.stop) for _ in work.units]
    held: list[list[ScoredToken]] = [[] for _ in work.units]
    offsets, ended, tokens = [0] * len(work.units), 0, 0
    try:
        if shape is CHAT:
            for number in range(len(work.units) * body.copies):
                first = shape.delta(number, "", None, None)
                first["delta"]["role"] = "assistant"
                yield _event({**head, "choices": [first]})
        while ended < len(work.units):
            arrived = await _next(work)
            if not tokens:
                state.metrics.first_token.labels(hosted.name).observe(time.monotonic() - start)
            tokens += len(arrived)
            for number, choice in arrived:
                decoders[number].add(choice.token)
                if job.settings.logprobs:
                    token = ScoredToken(choice.token, choice.logprob or 0.0, choice.top)
                    held[number].append(token)
            for number, choice in dict(arrived).items():  # the last token of each text
                ended += choice.stopped is not None
                piece = decoders[number].more(last=choice.stopped is not None)
                if not piece and choice.stopped is None:
                    continue
                logprobs = None
                if job.settings.logprobs:
                    shown, held[number] = held[number], []
                    if choice.stopped == "stop":
                        shown = _within(tokenizer, shown, len(piece))
                    logprobs = shape.logprobs(tokenizer, shown, offsets[number])
                offsets[number] += len(piece)
                reason = None if choice.stopped is None else _reason(choice.stopped)
                for copy in range(body.copies):
                    index = number * body.copies + copy
                    yield _event({**head, "choices": [shape.delta(index, piece, reason, logprobs)]})
        if usage:
            yield _event({**head, "choices": [], "usage": _usage(job, tokens * body.copies)})
        yield "data: [DONE]\n\n"
        state.metrics.generated_tokens.labels(hosted.name).inc(tokens)
        state.refund(request, work, tokens)
    except (Refused, GlassformerError) as error:
        status = error.status if isinstance(error, Refused) else 400
        yield _event(openai_error(status, str(error)))


async def _next(work: GenerationWork) -> list[tuple[int, Choice]]:
    """All tokens that have arrived, at least one; raises what made the work fail."""
    assert work.choices is not None  # noqa: S101 - it streams
    try:
        async with asyncio.timeout(work.seconds_left):
            every = [await work.choices.get()]
    except TimeoutError:
        raise Refused(504, LATE) from None
    while not work.choices.empty():
        every.append(work.choices.get_nowait())
    if None in every:
        raise work.result.exception() or Refused(504, LATE)
    return [each for each in every if each is not None]


class EventStream(StreamingResponse):
    """Server-sent events. The work ends with the response, even if that never starts."""

    def __init__(self, events: AsyncIterator[str], work: GenerationWork) -> None:
        super().__init__(events, media_type="text/event-stream")
        self.work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.work.cancelled = True


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


def _head(request: Request, hosted: HostedModel, prefix: str, kind: str) -> dict[str, Any]:
    id = f"{prefix}-{info_of(request).id}"
    return {"id": id, "object": kind, "created": int(time.time()), "model": hosted.name}


def _usage(job: GenerationJob, generated: int) -> dict[str, int]:
    read = sum(map(len, job.prompts))
    both = {"prompt_tokens": read, "completion_tokens": generated}
    return {**both, "total_tokens": read + generated}


def _reason(stopped: Stopped) -> str:
    return "length" if stopped == "length" else "stop"


def _text_choice(index: int, text: str, reason: str | None, logprobs: Any) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": logprobs}


def _chat_choice(index: int, text: str, reason: str | None, logprobs: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {"index": index, "message": message, "finish_reason": reason, "logprobs": logprobs}


def _chat_delta(index: int, text: str, reason: str | None, logprobs: Any) -> dict[str, Any]:
    delta = {"content": text}
    return {"index": index, "delta": delta, "finish_reason": reason, "logprobs": logprobs}


def _piece(tokenizer: Tokenizer, id: int) -> str:
    """The characters of a token inside a text: at its start some tokenizers drop the space."""
    return tokenizer.decode([id, id])[len(tokenizer.decode([id])) :]


def _within(tokenizer: Tokenizer, tokens: list[ScoredToken], length: int) -> list[ScoredToken]:
    """The tokens that begin in the first characters, before a stop string."""
    starts = accumulate((len(_piece(tokenizer, token.id)) for token in tokens), initial=0)
    return [token for token, start in zip(tokens, starts, strict=False) if start < length]


def _text_logprobs(tokenizer: Tokenizer, tokens: list[ScoredToken], offset: int) -> dict[str, Any]:
    pieces = [_piece(tokenizer, token.id) for token in tokens]
    offsets = list(accumulate(map(len, pieces), initial=offset))[:-1]
    best = [{_piece(tokenizer, id): value for id, value in token.top} for token in tokens]
    return {
        "tokens": pieces, "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": best, "text_offset": offsets,
    }  # fmt: skip


def _chat_logprobs(tokenizer: Tokenizer, tokens: list[ScoredToken], offset: int) -> dict[str, Any]:
    def row(id: int, logprob: float) -> dict[str, Any]:
        piece = _piece(tokenizer, id)
        return {"token": piece, "logprob": logprob, "bytes": list(piece.encode())}

    content = [
        {**row(token.id, token.logprob), "top_logprobs": [row(*each) for each in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


TEXT = Shape(
    "text_completion", "text_completion", "cmpl", _text_choice, _text_choice, _text_logprobs
)
CHAT = Shape(
    "chat.completion", "chat.completion.chunk", "chatcmpl", _chat_choice, _chat_delta,
    _chat_logprobs,
)  # fmt: skip
