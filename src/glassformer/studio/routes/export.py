"""Export: the page as a file, traces to download and upload, Python code."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.glass import Trace
from glassformer.glass.stacks import StackName
from glassformer.studio import schemas, standalone
from glassformer.studio.routes.responses import as_json
from glassformer.studio.runs import RecordedRun
from glassformer.studio.state import StudioState
from glassformer.studio.trace_upload import run_from_trace
from glassformer.studio.views.numbers import attention_row
from glassformer.studio.views.python import run_code


def add_routes(app: FastAPI, state: StudioState) -> None:
    runs, jobs = state.runs, state.jobs

    @app.get("/api/template")
    async def template(request: Request) -> Response:
        """All pages in one file, without data: the browser adds that."""
        page = await jobs.run(request, lambda _: standalone.template())
        return Response(page, media_type="text/plain")

    @app.get("/api/runs/{id}/trace")
    async def download_trace(request: Request, id: str) -> Response:
        run = runs.get(id)
        data = await jobs.run(request, lambda _: run.trace.to_bytes())
        return Response(data, media_type="application/octet-stream")

    @app.get("/api/runs/{id}/rows/{stack}/{layer}/{head}")
    async def rows(
        request: Request, id: str, stack: StackName, layer: int, head: int,
        first: int, count: int,
    ) -> Response:  # fmt: skip
        """Many rows in one response: an exported page takes those of all heads."""
        run, queries = runs.get(id), range(first, first + count)
        content = await jobs.run(
            request,
            lambda _: [attention_row(run, stack, layer, head, query) for query in queries],
        )
        return as_json(schemas.AttentionRows(content))

    @app.get("/api/runs/{id}/python")
    async def python(id: str) -> Response:
        run = runs.get(id)
        served = state.models.get(run.request.model)
        folder = None if served is None or served.run is None else served.run.as_posix()
        return as_json(schemas.PythonCode(code=run_code(run, served), folder=folder))

    @app.post("/api/traces")
    async def upload_trace(request: Request) -> Response:
        data = await request.body()

        def work(_: object) -> RecordedRun:
            id = f"trace:{runs.next_number()}"  # no model has a colon in its id
            return runs.traces.put(run_from_trace(Trace.from_bytes(data), id))

        run = await jobs.run(request, work)
        return as_json(schemas.UploadedTrace(model=run.id))
