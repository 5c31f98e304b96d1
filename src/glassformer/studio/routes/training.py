"""The page Training."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from glassformer.errors import InputError
from glassformer.studio.routes.responses import as_json
from glassformer.studio.state import StudioState
from glassformer.studio.views.training import progress


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.get("/api/models/{id}/training")
    async def training(request: Request, id: str) -> Response:
        served = state.served(id)
        folder, step = served.run, served.step
        if folder is None:
            raise InputError("this model has no training run: open the folder of a run")
        return as_json(await state.jobs.run(request, lambda _: progress(folder, step)))
