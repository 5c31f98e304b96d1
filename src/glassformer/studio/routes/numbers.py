"""The page Numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response

from glassformer.glass.stacks import StackName
from glassformer.studio.routes.responses import as_bytes, as_json
from glassformer.studio.runs import RecordedRun
from glassformer.studio.state import StudioState
from glassformer.studio.views.numbers import numbers
from glassformer.studio.views.products import matrix_picture, product


def add_routes(app: FastAPI, state: StudioState) -> None:
    async def of_run(request: Request, id: str, work: Callable[[RecordedRun], Any]) -> Any:
        run = state.runs.get(id)
        return await state.jobs.run(request, lambda _: work(run))

    @app.get("/api/runs/{id}/numbers/{stack}/{layer}/{head}/{query}")
    async def one_computation(
        request: Request, id: str, stack: StackName, layer: int, head: int, query: int
    ) -> Response:
        work = functools.partial(numbers, stack=stack, layer=layer, head=head, query=query)
        return as_json(await of_run(request, id, work))

    @app.get("/api/runs/{id}/product/{stack}/{layer}/{head}/{query}/{name}/{row}")
    async def one_product(
        request: Request, id: str, stack: StackName, layer: int, head: int, query: int,
        name: str, row: int,
    ) -> Response:  # fmt: skip
        work = functools.partial(
            product, stack=stack, layer=layer, head=head, query=query, name=name, row=row
        )
        return as_json(await of_run(request, id, work))

    @app.get("/api/runs/{id}/matrix/{stack}/{layer}/{head}/{name}")
    async def one_matrix(
        request: Request, id: str, stack: StackName, layer: int, head: int, name: str
    ) -> Response:
        work = functools.partial(matrix_picture, stack=stack, layer=layer, head=head, name=name)
        return as_bytes(await of_run(request, id, work))
