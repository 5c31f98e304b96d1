"""The studio's server: the static pages, the API's routes and the error responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from glassformer.asgi.requests import Refused, first_error
from glassformer.errors import GlassformerError
from glassformer.studio.guard import Guard
from glassformer.studio.jobs import ClientLeft
from glassformer.studio.routes import (
    causes,
    compare,
    export,
    generation,
    layers,
    lectures,
    lessons,
    network,
    neurons,
    numbers,
    positions,
    runs,
    space,
    static,
    sweep,
    training,
)  # fmt: skip
from glassformer.studio.samples import ServedModel, model_ids
from glassformer.studio.state import StudioState

ROUTES = (
    runs, network, numbers, generation, layers, positions, export, compare, training, space,
    neurons, lectures, lessons, sweep, causes,
)  # fmt: skip


def create_app(models: Sequence[ServedModel], *, port: int) -> Guard:
    """The ASGI app that serves these models, wrapped in its guard.

    `port` is the one it will listen on: the guard refuses requests for any other host.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_error_handlers(app)
    static.add_routes(app)
    state = StudioState(dict(zip(model_ids([each.name for each in models]), models, strict=True)))
    for routes in ROUTES:
        routes.add_routes(app, state)
    return Guard(app, port=port)


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is one line of JSON that reveals nothing about the machine."""

    def response(status: int, line: str) -> JSONResponse:
        return JSONResponse({"error": line}, status)

    def refused(_: Request, error: Refused) -> Response:
        return response(error.status, error.line)

    def client_left(_: Request, error: ClientLeft) -> Response:
        return Response(status_code=499)  # nobody reads it

    def user_error(_: Request, error: GlassformerError) -> Response:
        return response(400, str(error))

    def invalid_url(_: Request, error: RequestValidationError) -> Response:
        return response(400, first_error(error.errors(), skip=1))  # skips "path" or "query"

    def http_error(_: Request, error: HTTPException) -> Response:
        return response(error.status_code, str(error.detail).lower())

    def internal_error(_: Request, error: Exception) -> Response:
        return response(500, "internal error: see the studio's terminal")

    handlers: dict[Any, Callable[..., Response]] = {
        Refused: refused, ClientLeft: client_left, GlassformerError: user_error,
        RequestValidationError: invalid_url, HTTPException: http_error, Exception: internal_error,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
