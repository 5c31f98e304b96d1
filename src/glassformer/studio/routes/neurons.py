"""The page Neurons."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.studio.routes.responses import as_json
from glassformer.studio.schemas import Side
from glassformer.studio.state import StudioState
from glassformer.studio.views import neurons


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.get("/api/runs/{id}/neurons/{side}/{layer}")
    async def strongest(request: Request, id: str, side: Side, layer: int) -> Response:
        run = state.runs.get(id)
        return as_json(await state.jobs.run(request, lambda _: neurons.neurons(run, side, layer)))

    @app.get("/api/runs/{id}/neurons/{side}/{layer}/{unit}")
    async def one(request: Request, id: str, side: Side, layer: int, unit: int) -> Response:
        run = state.runs.get(id)
        return as_json(
            await state.jobs.run(request, lambda _: neurons.neuron(run, side, layer, unit))
        )
