"""The page Space."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import SpaceRequest
from glassformer.studio.routes.responses import as_json, parse_body
from glassformer.studio.schemas import RunRequest
from glassformer.studio.state import StudioState
from glassformer.studio.views import space
from glassformer.studio.views.space import RecordedSpace, RecordedSpaces


def add_routes(app: FastAPI, state: StudioState) -> None:
    spaces = RecordedSpaces()

    @app.post("/api/spaces")
    async def words(request: Request) -> Response:
        query = parse_body(SpaceRequest, await request.body())

        def work(progress: JobMonitor) -> RecordedSpace:
            known = spaces.same(query)
            if known is not None:
                return known
            if query.model not in state.models:
                asked = RunRequest(model=query.model, text=query.texts[0])
                return spaces.add(query, space.trace_space(state.runs.uploaded_run(asked)))
            model = state.checkpoints.model(state.models[query.model], query.step)
            return spaces.add(query, space.word_space(model, query.texts, progress))

        return as_json((await state.jobs.run(request, work)).row)

    @app.get("/api/spaces/{id}/words/{word}")
    async def one_word(request: Request, id: str, word: int) -> Response:
        vectors = spaces.get(id).vectors
        return as_json(await state.jobs.run(request, lambda _: space.one_word(vectors, word)))

    @app.get("/api/spaces/{id}/sentences")
    async def sentences(request: Request, id: str) -> Response:
        vectors = spaces.get(id).vectors
        return as_json(await state.jobs.run(request, lambda _: space.sentences(vectors)))
