"""The routes of three pages: Generate, Layers and Positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, Literal

from fastapi import FastAPI, Request, Response

from glassformer.errors import InputError
from glassformer.studio import layers, positions, python, schemas, writing
from glassformer.studio import page_schemas as wire_pages
from glassformer.studio.answers import as_bytes, as_json, parsed
from glassformer.studio.jobs import JobQueue
from glassformer.studio.runs import RecordedRuns
from glassformer.studio.samples import Served, served
from glassformer.studio.training import Opened


def serve(
    app: FastAPI, models: Mapping[str, Served], runs: RecordedRuns, desk: JobQueue, opened: Opened
) -> None:
    _generate(app, models, desk, opened)
    _layers(app, runs, desk)
    _positions(app, models, runs, desk, opened)


def _generate(app: FastAPI, models: Mapping[str, Served], desk: JobQueue, opened: Opened) -> None:
    kept = writing.Writings()

    @app.post("/api/writings")
    async def write(request: Request) -> Response:
        ask = parsed(wire_pages.WriteAsk, await request.body())
        model = served(models, ask.model)

        def work(stop: Event) -> writing.Wrote:
            return kept.same(ask) or kept.add(opened.model(model, ask.step), ask, stop)

        return as_json((await desk.do(request, work)).row)

    async def about(request: Request, id: str, work: Callable[[writing.Wrote], Any]) -> Any:
        wrote = kept.find(id)
        return await desk.do(request, lambda stop: work(wrote))

    @app.get("/api/writings/{id}/python")
    async def code(id: str) -> Response:
        wrote = kept.find(id)
        return as_json(schemas.Python(code=python.writing(wrote, models[wrote.ask.model])))

    @app.get("/api/writings/{id}/attention/{stack}/{layer}")
    async def attention(
        request: Request, id: str, stack: schemas.StackName, layer: int, head: int | None = None
    ) -> Response:
        return as_bytes(
            await about(request, id, lambda wrote: writing.picture(wrote, stack, layer, head))
        )

    @app.get("/api/writings/{id}/rows/{stack}/{layer}")
    async def rows(
        request: Request, id: str, stack: schemas.StackName, layer: int, head: int | None = None
    ) -> Response:
        return as_json(
            await about(request, id, lambda wrote: writing.rows(wrote, stack, layer, head))
        )


def _layers(app: FastAPI, runs: RecordedRuns, desk: JobQueue) -> None:
    @app.get("/api/runs/{id}/decided")
    async def decided(request: Request, id: str) -> Response:
        run = runs.find(id)
        return as_json(await desk.do(request, lambda stop: layers.decision(run)))

    @app.get("/api/runs/{id}/decided/{token}")
    async def reading(request: Request, id: str, token: int) -> Response:
        run = runs.find(id)
        return as_json(await desk.do(request, lambda stop: layers.reading(run, token)))

    @app.get("/api/runs/{id}/way/{stack}/{token}")
    async def way(
        request: Request, id: str, stack: schemas.StackName, token: int,
        other: str | None = None, mate: int | None = None,
    ) -> Response:  # fmt: skip
        run = runs.find(id)
        if (other is None) != (mate is None):
            raise InputError("other and mate: a run and a token of it, write both or none")
        pair = None if other is None or mate is None else (runs.find(other), mate)
        return as_json(await desk.do(request, lambda stop: layers.way(run, stack, token, pair)))


def _positions(
    app: FastAPI, models: Mapping[str, Served], runs: RecordedRuns, desk: JobQueue, opened: Opened
) -> None:
    kept = positions.Shuffles()

    @app.get("/api/positions")
    async def lecture(request: Request) -> Response:
        return as_json(await desk.do(request, lambda stop: positions.lecture()))

    @app.get("/api/positions/{model}/{stack}")
    async def places(
        request: Request, model: str, stack: schemas.StackName, step: int | None = None
    ) -> Response:
        found = served(models, model)

        def work(stop: Event) -> wire_pages.Places:
            return positions.places(opened.model(found, step), stack)

        return as_json(await desk.do(request, work))

    @app.post("/api/shuffles")
    async def shuffle(request: Request) -> Response:
        ask = parsed(wire_pages.ShuffleAsk, await request.body())
        run = runs.find(ask.run)

        def work(stop: Event) -> positions.Shuffled:
            return kept.same(ask) or kept.add(run, ask, stop)

        return as_json((await desk.do(request, work)).row)

    @app.get("/api/shuffles/{id}/{when}/{stack}/{layer}/{head}")
    async def picture(
        request: Request, id: str, when: Literal["before", "after"], stack: schemas.StackName,
        layer: int, head: int,
    ) -> Response:  # fmt: skip
        found = kept.find(id)
        return as_bytes(
            await desk.do(request, lambda stop: positions.picture(found, when, stack, layer, head))
        )
