"""The page Compare: the difference between two runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response

from glassformer.glass.stacks import StackName
from glassformer.studio.routes.responses import as_bytes, as_json
from glassformer.studio.runs import RecordedRun
from glassformer.studio.state import StudioState
from glassformer.studio.views import difference


def add_routes(app: FastAPI, state: StudioState) -> None:
    async def of_pair(
        request: Request, one: str, two: str, work: Callable[[RecordedRun, RecordedRun], Any]
    ) -> Any:
        first, second = state.runs.get(one), state.runs.get(two)
        return await state.jobs.run(request, lambda _: work(first, second))

    @app.get("/api/difference/{one}/{two}/head/{stack}/{layer}/{head}")
    async def one_head(
        request: Request, one: str, two: str, stack: StackName, layer: int, head: int
    ) -> Response:
        work = partial(difference.one_head, stack=stack, layer=layer, head=head)
        return as_bytes(await of_pair(request, one, two, work))

    @app.get("/api/difference/{one}/{two}/changes/{stack}")
    async def changes(request: Request, one: str, two: str, stack: StackName) -> Response:
        return as_json(await of_pair(request, one, two, partial(difference.changes, stack=stack)))
