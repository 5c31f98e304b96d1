"""The page Generate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response

from glassformer.glass.stacks import StackName
from glassformer.studio import schemas
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import GenerationRequest
from glassformer.studio.routes.responses import as_bytes, as_json, parse_body
from glassformer.studio.state import StudioState
from glassformer.studio.views import generation, python
from glassformer.studio.views.generation import RecordedGeneration, RecordedGenerations


def add_routes(app: FastAPI, state: StudioState) -> None:
    generations = RecordedGenerations()

    @app.post("/api/generations")
    async def generate(request: Request) -> Response:
        query = parse_body(GenerationRequest, await request.body())
        served = state.served(query.model)

        def work(progress: JobMonitor) -> RecordedGeneration:
            known = generations.same(query)
            return known or generations.add(
                state.checkpoints.model(served, query.step), query, progress
            )

        return as_json((await state.jobs.run(request, work)).row)

    async def of_generation(
        request: Request, id: str, work: Callable[[RecordedGeneration], Any]
    ) -> Any:
        recorded = generations.get(id)
        return await state.jobs.run(request, lambda _: work(recorded))

    @app.get("/api/generations/{id}/python")
    async def code(id: str) -> Response:
        recorded = generations.get(id)
        served = state.models[recorded.request.model]
        return as_json(schemas.PythonCode(code=python.generation_code(recorded, served)))

    @app.get("/api/generations/{id}/attention/{stack}/{layer}")
    async def attention(
        request: Request, id: str, stack: StackName, layer: int, head: int | None = None
    ) -> Response:
        return as_bytes(
            await of_generation(
                request, id, lambda each: generation.encoded_attention(each, stack, layer, head)
            )
        )

    @app.get("/api/generations/{id}/rows/{stack}/{layer}")
    async def rows(
        request: Request, id: str, stack: StackName, layer: int, head: int | None = None
    ) -> Response:
        return as_json(
            await of_generation(
                request, id, lambda each: generation.attention_rows(each, stack, layer, head)
            )
        )
