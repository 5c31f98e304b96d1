"""The patching sweep of the page Lab."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.studio.jobs import JobMonitor
from glassformer.studio.routes.responses import as_json
from glassformer.studio.schemas import Side
from glassformer.studio.state import StudioState
from glassformer.studio.views.sweep import patch_sweep


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.get("/api/runs/{id}/sweep/{other}/{side}/{token}")
    async def sweep(request: Request, id: str, other: str, side: Side, token: int) -> Response:
        run, donor = state.runs.get(id), state.runs.get(other)

        def work(_: JobMonitor) -> bytes:
            name = f"sweep {other} {side} {token}"
            return run.once(name, lambda: patch_sweep(run, donor, side, token))

        return as_json(await state.jobs.run(request, work))
