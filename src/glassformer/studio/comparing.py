"""What lies between two runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response

from glassformer.studio import difference, schemas
from glassformer.studio.answers import as_bytes, as_json
from glassformer.studio.jobs import JobQueue
from glassformer.studio.runs import RecordedRun, RecordedRuns


def serve(app: FastAPI, runs: RecordedRuns, desk: JobQueue) -> None:
    async def between(
        request: Request, one: str, two: str, work: Callable[[RecordedRun, RecordedRun], Any]
    ) -> Any:
        first, second = runs.find(one), runs.find(two)
        return await desk.do(request, lambda _: work(first, second))

    @app.get("/api/between/{one}/{two}/head/{stack}/{layer}/{head}")
    async def one_head(
        request: Request, one: str, two: str, stack: schemas.StackName, layer: int, head: int
    ) -> Response:
        work = partial(difference.head, stack=stack, layer=layer, head=head)
        return as_bytes(await between(request, one, two, work))

    @app.get("/api/between/{one}/{two}/changes/{stack}")
    async def how_much(request: Request, one: str, two: str, stack: schemas.StackName) -> Response:
        return as_json(await between(request, one, two, partial(difference.changes, stack=stack)))
