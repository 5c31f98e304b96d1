"""The page Causes."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.studio.cause_schemas import CauseRequest
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.routes.responses import as_json, parse_body
from glassformer.studio.state import StudioState
from glassformer.studio.views.causes import explained


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.post("/api/causes")
    async def causes(request: Request) -> Response:
        query = parse_body(CauseRequest, await request.body())
        run = state.runs.get(query.run)
        other = None if query.other is None else state.runs.get(query.other)
        served = state.served(run.request.model)

        def work(monitor: JobMonitor) -> bytes:
            return run.once(
                query.model_dump_json(),
                lambda: explained(query, run, other, served, monitor.report),
            )

        return as_json(await state.jobs.run(request, work))
