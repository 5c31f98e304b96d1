"""The page Model."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.glass.stacks import StackName
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.routes.responses import as_bytes, as_json
from glassformer.studio.state import StudioState
from glassformer.studio.views import encode, network


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.get("/api/runs/{id}/network")
    async def norms(request: Request, id: str) -> Response:
        run = state.runs.get(id)
        return as_json(await state.jobs.run(request, lambda _: network.network(run)))

    @app.get("/api/runs/{id}/guesses")
    async def guesses(request: Request, id: str) -> Response:
        run = state.runs.get(id)

        def work(progress: JobMonitor) -> bytes:
            return run.once("guesses", lambda: network.network_guesses(run, progress))

        return as_json(await state.jobs.run(request, work))

    @app.get("/api/runs/{id}/mean/{stack}")
    async def layer_means(request: Request, id: str, stack: StackName) -> Response:
        run = state.runs.get(id)
        return as_bytes(await state.jobs.run(request, lambda _: encode.layer_means(run, stack)))

    @app.get("/api/runs/{id}/mean/{stack}/{query}")
    async def layer_attention(request: Request, id: str, stack: StackName, query: int) -> Response:
        run = state.runs.get(id)
        return as_json(
            await state.jobs.run(request, lambda _: network.layer_attention(run, stack, query))
        )
