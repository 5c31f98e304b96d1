"""Routes for those who run the server: health, metrics, the queue, and which models are loaded."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from starlette.responses import PlainTextResponse

from glassformer.asgi.requests import Refused
from glassformer.errors import GlassformerError
from glassformer.serve.calls import CALLS
from glassformer.serve.dialects.schemas import Body, ModelName, PlainError, errors
from glassformer.serve.state import ServeState, info_of

TASKS = (*(call for call in CALLS if call != "explain"), "generate", "translate")


class Status(BaseModel):
    status: str


class NameBody(Body):
    model: ModelName


class QueueRow(BaseModel):
    model: str
    tasks: list[str]
    languages: dict[str, list[str]]
    running: int
    waiting: int
    waiting_tokens: int
    queue_tokens: int


def router(state: ServeState) -> APIRouter:
    routes = APIRouter(responses=errors(PlainError))
    host = state.host

    def check_admin(request: Request) -> None:
        key = info_of(request).key
        if key is not None and not key.admin:
            raise Refused(403, "this key loads no models: write admin = true in the key file")
        if state.workers > 1:  # only this worker would have it
            raise Refused(403, "a server with --workers keeps its models: restart it with others")

    @routes.get("/health", response_model=Status)
    async def health() -> Status:
        return Status(status="ok")

    @routes.get("/ready", response_model=Status)
    async def ready() -> Status:
        if host.draining or not host.models:
            raise Refused(503, "no model is ready: wait, or load one")
        ended = [name for name, each in host.models.items() if not each.scheduler.is_alive()]
        if ended:
            raise Refused(503, f"the scheduler of {ended[0]} has ended: restart the server")
        return Status(status="ready")

    @routes.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(state.metrics.text(), media_type="text/plain; version=0.0.4")

    @routes.get("/queue", response_model=list[QueueRow])
    async def queue() -> list[QueueRow]:
        return [
            QueueRow(
                model=each.name, tasks=[task for task in TASKS if each.able(task)],
                languages=each.languages, running=each.scheduler.busy,
                waiting=len(each.scheduler.queue), waiting_tokens=each.scheduler.queue.tokens,
                queue_tokens=each.scheduler.queue.bound,
            )
            for each in host.models.values()
        ]  # fmt: skip

    @routes.post("/models/load", response_model=Status)
    async def load(request: Request, body: NameBody) -> Status:
        check_admin(request)
        folder = host.folder(body.model)
        try:
            await asyncio.to_thread(host.load, body.model)
        except GlassformerError as error:  # its line names a folder of the server
            raise Refused(424, str(error).replace(folder, body.model)) from None
        return Status(status="loaded")

    @routes.post("/models/unload", response_model=Status)
    async def unload(request: Request, body: NameBody) -> Status:
        check_admin(request)
        await asyncio.to_thread(host.unload, body.model)
        return Status(status="unloaded")

    return routes
