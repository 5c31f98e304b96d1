"""The pages Pooling and Toy, and what the slides print."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from fastapi import FastAPI, Request, Response

from glassformer.errors import InputError
from glassformer.loaded import Model
from glassformer.studio.guard import no_model
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.page_schemas import Pooling, PoolingRequest, Sheet, Sheets
from glassformer.studio.pooling_toys import (
    REVIEWS,
    VARIANTS,
    random_vectors,
    reviews_right,
    train_variants,
)
from glassformer.studio.routes.responses import as_json, parse_body
from glassformer.studio.samples import ServedModel
from glassformer.studio.state import StudioState
from glassformer.studio.views import pooling, slides, toy
from glassformer.studio.views.python import pooling_code, variants_code

RANDOM = "~random"  # no model has such an id
MAX_SEED = 1 << 31


def add_routes(app: FastAPI, state: StudioState) -> None:
    _add_pooling(app, state)

    @app.get("/api/slides/pooling")
    async def printed_pooling() -> Response:
        return as_json(_printed("pooling_sheets", slides.pooling_sheets()))

    @app.get("/api/slides/positions")
    async def printed_positions() -> Response:
        return as_json(_printed("position_sheets", slides.position_sheets()))

    @app.get("/api/toy/{name}/{seed}/{text}")
    async def one_toy(request: Request, name: toy.ToyName, seed: int, text: int) -> Response:
        if not 0 <= seed < MAX_SEED:
            raise InputError(f"seed = {seed}: write a number from 0 to {MAX_SEED - 1}")
        sheets = await state.jobs.run(
            request, lambda monitor: toy.toy_sheets(name, seed, text, monitor.report)
        )
        return as_json(sheets)


def _add_pooling(app: FastAPI, state: StudioState) -> None:
    tables = {id: each for id, each in state.models.items() if pooling.is_table(each.model)}
    # The variants and how many reviews each has right, by the id of their vectors.
    trained: dict[str, list[tuple[Model, int]]] = {}

    def vectors_of(id: str) -> torch.Tensor | None:
        if id in ("", RANDOM):
            return random_vectors() if id else None
        if id not in tables:
            raise no_model()
        return pooling.toy_vectors(tables[id].model)

    def vectors_code(id: str) -> str:
        if id in ("", RANDOM):
            return "random_vectors()" if id else ""
        return f"toy_vectors(gf.load({tables[id].folder!r}))"

    def variants(query: PoolingRequest, monitor: JobMonitor) -> Pooling:
        if query.vectors not in trained:
            models = train_variants(vectors_of(query.vectors), monitor.report)
            trained[query.vectors] = [(model, reviews_right(model)) for model in models]
        formulas = [
            f"{variant.formula}; {right} of {len(REVIEWS)} reviews right"
            for variant, (_, right) in zip(VARIANTS, trained[query.vectors], strict=True)
        ]
        return Pooling(
            variants=[
                pooling.pooled(model, variant.name, formula, query.text, query.word)
                for variant, formula, (model, _) in zip(
                    VARIANTS, formulas, trained[query.vectors], strict=True
                )
            ],
            vectors=[("", "trained with it"), (RANDOM, "random, fixed"), *_names(tables)],
            python=variants_code(query.text, vectors_code(query.vectors)),
        )

    def of_model(query: PoolingRequest, id: str) -> Pooling:
        served = state.served(id)
        if not pooling.pools(served.model):
            raise InputError(f"model = {id!r}: this model has no attention over words")
        model = state.checkpoints.model(served, query.step)
        own = pooling.pooled(model, served.name, pooling.ROW, query.text, query.word)
        shown = [own]
        if query.vectors:
            if query.vectors not in tables:
                raise no_model()
            other = tables[query.vectors]
            name = f"with the vectors of {other.name}"
            shown.append(
                pooling.pooled(model, name, pooling.ROW, query.text, query.word, other.model)
            )
        width = model.config.width
        fitting = {id: each for id, each in tables.items() if each.model.config.width == width}
        return Pooling(
            variants=shown,
            vectors=[("", "its own"), *_names(fitting)],
            python=pooling_code(served, query.step, query.text),
        )

    @app.post("/api/pooling")
    async def weigh(request: Request) -> Response:
        query = parse_body(PoolingRequest, await request.body())

        def work(monitor: JobMonitor) -> Pooling:
            if query.model is None:
                return variants(query, monitor)
            return of_model(query, query.model)

        return as_json(await state.jobs.run(request, work))


def _printed(function: str, sheets: list[Sheet]) -> Sheets:
    code = f"from glassformer.studio.views.slides import {function}\n\nsheets = {function}()"
    return Sheets(sheets=sheets, python=code)


def _names(tables: Mapping[str, ServedModel]) -> list[tuple[str, str]]:
    return [(id, each.name) for id, each in tables.items()]
