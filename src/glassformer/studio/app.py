"""The studio's server: a few questions about a run, answered from its trace, and the pages."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from glassformer.errors import GlassformerError
from glassformer.studio import comparing, measured, pages, schemas, training
from glassformer.studio import encode as pictures
from glassformer.studio import export as taking
from glassformer.studio.answers import as_bytes, as_json, first, parsed
from glassformer.studio.guard import Guard, Refused
from glassformer.studio.jobs import ClientLeft, JobQueue
from glassformer.studio.numbers import numbers, row
from glassformer.studio.reading import NO_TOKENIZER, mask_of
from glassformer.studio.runs import RecordedRun, RecordedRuns, limit, sizes
from glassformer.studio.samples import Served, samples
from glassformer.studio.trace_upload import row_of
from glassformer.train.run_dir import checkpoints

WEB = Path(__file__).parent / "web"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


def create_app(models: Sequence[Served], *, port: int) -> Guard:
    """The app for these models, behind its guard. `port` is where it will be served."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    _answer_errors(app)
    _serve_pages(app)
    _serve_models(app, {str(i): served for i, served in enumerate(models)})
    return Guard(app, port=port)


def _answer_errors(app: FastAPI) -> None:
    """Whatever goes wrong is one line, and none tells of the machine."""

    def error(status: int, line: str) -> JSONResponse:
        return JSONResponse({"error": line}, status)

    def refused(_: Request, found: Refused) -> Response:
        return error(found.status, found.line)

    def left(_: Request, found: ClientLeft) -> Response:
        return Response(status_code=499)  # nobody reads it

    def wrong(_: Request, found: GlassformerError) -> Response:
        return error(400, str(found))

    def unreadable(_: Request, found: RequestValidationError) -> Response:
        return error(400, first(found.errors(), skip=1))  # of an address: path or query

    def http(_: Request, found: HTTPException) -> Response:
        return error(found.status_code, str(found.detail).lower())

    def broken(_: Request, found: Exception) -> Response:
        return error(500, "the studio has made a mistake: its terminal says more")

    handlers: dict[Any, Callable[..., Response]] = {
        Refused: refused, ClientLeft: left, GlassformerError: wrong, HTTPException: http,
        RequestValidationError: unreadable, Exception: broken,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _serve_pages(app: FastAPI) -> None:
    """Every page is read once and has its own route: no request ever becomes a path."""

    def page(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
        async def answer() -> Response:
            return Response(content, media_type=kind)

        return answer

    for path in sorted(WEB.rglob("*")):
        if path.suffix in KINDS:
            name = path.relative_to(WEB).as_posix()
            answer = page(path.read_bytes(), KINDS[path.suffix])
            app.get("/" if name == "index.html" else f"/{name}")(answer)


def _serve_models(app: FastAPI, models: Mapping[str, Served]) -> None:
    runs, desk, opened = RecordedRuns(), JobQueue(), training.Opened()
    rows = {id: _model_row(id, served) for id, served in models.items()}
    pages.serve(app, models, runs, desk, opened)
    taking.serve(app, models, runs, desk)
    comparing.serve(app, runs, desk)
    training.serve(app, models, desk)

    @app.get("/api/models")
    async def all_models() -> Response:
        now = [_with_steps(rows[id], served) for id, served in models.items()]
        return as_json(schemas.Models(models=[*now, *map(row_of, runs.alone())]))

    @app.post("/api/runs")
    async def run(request: Request) -> Response:
        ask = parsed(schemas.Ask, await request.body())
        if ask.model not in models:
            return as_json(runs.recorded(ask).row)
        served = models[ask.model]

        def work(stop: Event) -> RecordedRun:
            return runs.same(ask) or runs.add(opened.model(served, ask.step), ask, stop)

        return as_json((await desk.do(request, work)).row)

    async def about(request: Request, id: str, work: Callable[[RecordedRun], Any]) -> Any:
        run = runs.find(id)
        return await desk.do(request, lambda stop: work(run))

    @app.get("/api/runs/{id}/map/{stack}")
    async def small_map(request: Request, id: str, stack: schemas.StackName) -> Response:
        return as_bytes(await about(request, id, lambda run: pictures.small(run, stack)))

    @app.get("/api/runs/{id}/head/{stack}/{layer}/{head}")
    async def one_head(
        request: Request, id: str, stack: schemas.StackName, layer: int, head: int,
        view: schemas.View = "raw",
    ) -> Response:  # fmt: skip
        work = functools.partial(pictures.head, stack=stack, layer=layer, head=head, view=view)
        return as_bytes(await about(request, id, work))

    @app.get("/api/runs/{id}/row/{stack}/{layer}/{head}/{query}")
    async def one_row(
        request: Request, id: str, stack: schemas.StackName, layer: int, head: int, query: int
    ) -> Response:
        work = functools.partial(row, stack=stack, layer=layer, head=head, query=query)
        return as_json(await about(request, id, work))

    @app.get("/api/runs/{id}/numbers/{stack}/{layer}/{head}/{query}")
    async def one_walk(
        request: Request, id: str, stack: schemas.StackName, layer: int, head: int, query: int
    ) -> Response:
        work = functools.partial(numbers, stack=stack, layer=layer, head=head, query=query)
        return as_json(await about(request, id, work))

    @app.get("/api/runs/{id}/measures")
    async def all_measures(request: Request, id: str) -> Response:
        return as_json(await about(request, id, measured.measures))

    @app.get("/api/runs/{id}/alignment")
    async def one_alignment(request: Request, id: str) -> Response:
        return as_json(await about(request, id, measured.alignment))


def _model_row(id: str, served: Served) -> schemas.ModelRow:
    model = served.model
    config = model.task.backbone.config
    return schemas.ModelRow(
        id=id,
        name=served.name,
        family=config.family,
        kind=model.task.spec.kind,
        mask=mask_of(model.tokenizer),
        max_length=limit(model),
        parameters=sum(each.numel() for each in model.parameters()),
        stacks=sizes(model),
        samples=samples(served),
        note=NO_TOKENIZER if model.tokenizer is None else None,
    )


def _with_steps(row: schemas.ModelRow, served: Served) -> schemas.ModelRow:
    """A run that goes on has new checkpoints, and lets old ones go."""
    if served.run is None:
        return row
    return row.model_copy(update={"steps": checkpoints(served.run)})
