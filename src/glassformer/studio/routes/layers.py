"""The page Layers."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.errors import InputError
from glassformer.glass.stacks import StackName
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.routes.responses import as_json
from glassformer.studio.state import StudioState
from glassformer.studio.views import layers


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.get("/api/runs/{id}/lens")
    async def lens(request: Request, id: str) -> Response:
        run = state.runs.get(id)

        def work(progress: JobMonitor) -> bytes:
            return run.once("lens", lambda: layers.lens_curves(run, progress))

        return as_json(await state.jobs.run(request, work))

    @app.get("/api/runs/{id}/lens/{token}")
    async def lens_at(request: Request, id: str, token: int) -> Response:
        run = state.runs.get(id)

        def work(_: JobMonitor) -> bytes:
            return run.once(f"lens {token}", lambda: layers.lens_at(run, token))

        return as_json(await state.jobs.run(request, work))

    @app.get("/api/runs/{id}/parts/{token}")
    async def logit_parts(request: Request, id: str, token: int) -> Response:
        run = state.runs.get(id)

        def work(_: JobMonitor) -> bytes:
            return run.once(f"parts {token}", lambda: layers.logit_parts(run, token))

        return as_json(await state.jobs.run(request, work))

    @app.get("/api/runs/{id}/trajectory/{stack}/{token}")
    async def trajectory(
        request: Request, id: str, stack: StackName, token: int,
        other: str | None = None, mate: int | None = None,
    ) -> Response:  # fmt: skip
        run = state.runs.get(id)
        if (other is None) != (mate is None):
            raise InputError("other, mate: give both (a run and one of its tokens) or neither")
        pair = None if other is None or mate is None else (state.runs.get(other), mate)
        return as_json(
            await state.jobs.run(request, lambda _: layers.trajectory(run, stack, token, pair))
        )
