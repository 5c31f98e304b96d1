"""What can be taken away from the studio, and a trace that is brought back."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, Request, Response

from glassformer.glass import Trace
from glassformer.studio import schemas, standalone
from glassformer.studio.answers import as_json
from glassformer.studio.jobs import JobQueue
from glassformer.studio.numbers import row
from glassformer.studio.python import code
from glassformer.studio.runs import RecordedRun, RecordedRuns
from glassformer.studio.samples import Served
from glassformer.studio.trace_upload import alone


def serve(app: FastAPI, models: Mapping[str, Served], runs: RecordedRuns, desk: JobQueue) -> None:
    @app.get("/api/shell")
    async def shell(request: Request) -> Response:
        """All pages in one, without answers: the page itself adds those."""
        return Response(
            await desk.do(request, lambda _: standalone.shell()), media_type="text/plain"
        )

    @app.get("/api/runs/{id}/trace")
    async def trace(request: Request, id: str) -> Response:
        run = runs.find(id)
        data = await desk.do(request, lambda _: run.trace.to_bytes())
        return Response(data, media_type="application/octet-stream")

    @app.get("/api/runs/{id}/rows/{stack}/{layer}/{head}")
    async def rows(
        request: Request, id: str, stack: schemas.StackName, layer: int, head: int,
        first: int, count: int,
    ) -> Response:  # fmt: skip
        """Many in one answer: a page takes those of all heads along."""
        run, queries = runs.find(id), range(first, first + count)
        found = await desk.do(
            request, lambda _: [row(run, stack, layer, head, query) for query in queries]
        )
        return as_json(schemas.NumberRows(found))

    @app.get("/api/runs/{id}/python")
    async def python(id: str) -> Response:
        run = runs.find(id)
        served = models.get(run.ask.model)
        folder = None if served is None or served.run is None else served.run.as_posix()
        return as_json(schemas.Python(code=code(run, served), folder=folder))

    @app.post("/api/traces")
    async def bring(request: Request) -> Response:
        data = await request.body()

        def opened(_: object) -> RecordedRun:
            return runs.traces.keep(alone(Trace.from_bytes(data), f"t{runs.number()}"))

        run = await desk.do(request, opened)
        return as_json(schemas.Brought(model=run.id))
