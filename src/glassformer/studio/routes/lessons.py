"""Lessons and glossary."""

from __future__ import annotations

from fastapi import FastAPI, Response

from glassformer.studio.lessons import glossary, lessons
from glassformer.studio.routes.responses import as_json
from glassformer.studio.state import StudioState


def add_routes(app: FastAPI, state: StudioState) -> None:
    @app.get("/api/lessons")
    async def all_lessons() -> Response:
        return as_json(lessons())

    @app.get("/api/glossary")
    async def all_terms() -> Response:
        return as_json(glossary())
