"""The app: the routes of all dialects, the page, and the error responses, behind the gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from glassformer.asgi.requests import Refused, first_error
from glassformer.errors import GlassformerError
from glassformer.serve import page
from glassformer.serve.dialects import error_body, jina, libretranslate, openai, operation, own, tei
from glassformer.serve.gate import Gate
from glassformer.serve.logs import LOG
from glassformer.serve.state import ClientGone, ServeState
from glassformer.version import __version__

DIALECTS = (openai, tei, jina, libretranslate, own, operation)
# What a field that cannot be read is: TEI and Jina answer 422, the others 400.
UNREADABLE = {"/embed": 422, "/rerank": 422, "/predict": 422, "/v1/rerank": 422}


def create_app(state: ServeState, *, hosts: Collection[str] | None, log_text: bool = False) -> Gate:
    """The ASGI app that serves the models of `state.host`.

    Args:
        hosts: what the header Host may be; None: anything
        log_text: write the bodies of requests into the log
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        updates = asyncio.create_task(state.metrics.keep_current())
        yield
        updates.cancel()
        await asyncio.to_thread(state.host.close)

    app = FastAPI(
        title="glassformer", version=__version__, docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=lifespan,
    )  # fmt: skip
    _add_error_handlers(app)
    page.add_routes(app)
    for dialect in DIALECTS:
        app.include_router(dialect.router(state))
    paths = [*app.openapi()["paths"], *page.FILES, "/openapi.json"]
    return Gate(app, state, hosts=hosts, paths=paths, log_text=log_text)


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is one line in the shape of its dialect; none says anything about the machine.

    The handlers are coroutines: functions would run in another thread, which takes milliseconds
    while the models compute.
    """

    def response(request: Request, status: int, line: str, **headers: str) -> JSONResponse:
        return JSONResponse(error_body(request.url.path, status, line), status, headers)

    async def refused(request: Request, error: Refused) -> Response:
        content = error_body(request.url.path, error.status, error.line)
        return JSONResponse(content, error.status, error.headers)

    async def client_gone(_: Request, error: ClientGone) -> Response:
        return Response(status_code=499)  # nobody reads it

    async def user_error(request: Request, error: GlassformerError) -> Response:
        return response(request, UNREADABLE.get(request.url.path, 400), str(error))

    async def invalid(request: Request, error: RequestValidationError) -> Response:
        line = first_error(error.errors(), skip=1)  # skips "body" or "query"
        return response(request, UNREADABLE.get(request.url.path, 400), line)

    async def http_error(request: Request, error: HTTPException) -> Response:
        path, status = request.url.path, error.status_code
        if status == 400:  # a body that is not text
            status = UNREADABLE.get(path, 400)
        content = error_body(path, status, str(error.detail).lower())
        return JSONResponse(content, status, dict(error.headers or {}))

    async def internal_error(request: Request, error: Exception) -> Response:
        LOG.error("internal error", exc_info=error)
        return response(request, 500, "internal error: see the server's log")

    handlers: dict[Any, Callable[..., Awaitable[Response]]] = {
        Refused: refused, ClientGone: client_gone, GlassformerError: user_error,
        RequestValidationError: invalid, HTTPException: http_error, Exception: internal_error,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
