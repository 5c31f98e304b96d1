"""The page Positions."""

from __future__ import annotations

from typing import Literal

from fastapi import FastAPI, Request, Response

from glassformer.glass.stacks import StackName
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import PositionTable, ShuffleRequest
from glassformer.studio.routes.responses import as_bytes, as_json, parse_body
from glassformer.studio.state import StudioState
from glassformer.studio.views import positions, shuffle
from glassformer.studio.views.shuffle import ShuffledRun, ShuffledRuns


def add_routes(app: FastAPI, state: StudioState) -> None:
    shuffled_runs = ShuffledRuns()

    @app.get("/api/positions")
    async def lecture(request: Request) -> Response:
        return as_json(await state.jobs.run(request, lambda _: positions.lecture_positions()))

    @app.get("/api/positions/{model}/{stack}")
    async def of_model(
        request: Request, model: str, stack: StackName, step: int | None = None
    ) -> Response:
        served = state.served(model)

        def work(progress: JobMonitor) -> PositionTable:
            return positions.model_positions(state.checkpoints.model(served, step), stack)

        return as_json(await state.jobs.run(request, work))

    @app.post("/api/shuffles")
    async def shuffle_run(request: Request) -> Response:
        query = parse_body(ShuffleRequest, await request.body())
        run = state.runs.get(query.run)

        def work(progress: JobMonitor) -> ShuffledRun:
            return shuffled_runs.same(query) or shuffled_runs.add(run, query, progress)

        return as_json((await state.jobs.run(request, work)).row)

    @app.get("/api/shuffles/{id}/{when}/{stack}/{layer}/{head}")
    async def head_weights(
        request: Request, id: str, when: Literal["before", "after"], stack: StackName,
        layer: int, head: int,
    ) -> Response:  # fmt: skip
        shuffled = shuffled_runs.get(id)
        return as_bytes(
            await state.jobs.run(
                request, lambda _: shuffle.encoded_head(shuffled, when, stack, layer, head)
            )
        )
