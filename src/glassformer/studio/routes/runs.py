"""Models, runs, and what Map, Head and Translate show of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response

from glassformer.glass.stacks import StackName
from glassformer.inference.recording import NO_TOKENIZER
from glassformer.studio import schemas
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.routes.responses import as_bytes, as_json, parse_body
from glassformer.studio.runs import RecordedRun, max_tokens, stack_sizes
from glassformer.studio.samples import ServedModel, samples, text_set
from glassformer.studio.state import StudioState
from glassformer.studio.tokenization import mask_token
from glassformer.studio.trace_upload import uploaded_row
from glassformer.studio.views import encode, measures
from glassformer.studio.views.find import find_head
from glassformer.studio.views.numbers import attention_row
from glassformer.studio.views.pooling import pools
from glassformer.studio.views.surprisal import surprisal
from glassformer.train.run_dir import checkpoints


def add_routes(app: FastAPI, state: StudioState) -> None:
    rows = {id: _model_row(id, served) for id, served in state.models.items()}

    @app.get("/api/models")
    async def all_models() -> Response:
        current = [_with_steps(rows[id], served) for id, served in state.models.items()]
        return as_json(schemas.Models(models=[*current, *map(uploaded_row, state.runs.uploaded())]))

    @app.post("/api/runs")
    async def run(request: Request) -> Response:
        query = parse_body(schemas.RunRequest, await request.body())
        if query.model not in state.models:
            return as_json(state.runs.uploaded_run(query).row)
        served = state.models[query.model]

        def work(progress: JobMonitor) -> RecordedRun:
            known = state.runs.same(query)
            if known is not None:
                return known
            return state.runs.add(state.checkpoints.model(served, query.step), query, progress)

        return as_json((await state.jobs.run(request, work)).row)

    async def of_run(request: Request, id: str, work: Callable[[RecordedRun], Any]) -> Any:
        run = state.runs.get(id)
        return await state.jobs.run(request, lambda _: work(run))

    @app.get("/api/runs/{id}/map/{stack}")
    async def all_heads(request: Request, id: str, stack: StackName) -> Response:
        return as_bytes(await of_run(request, id, lambda run: encode.all_heads(run, stack)))

    @app.get("/api/runs/{id}/head/{stack}/{layer}/{head}")
    async def one_head(
        request: Request, id: str, stack: StackName, layer: int, head: int,
        view: schemas.WeightsView = "raw",
    ) -> Response:  # fmt: skip
        work = functools.partial(encode.one_head, stack=stack, layer=layer, head=head, view=view)
        return as_bytes(*await of_run(request, id, work))

    @app.get("/api/runs/{id}/row/{stack}/{layer}/{head}/{query}")
    async def one_row(
        request: Request, id: str, stack: StackName, layer: int, head: int, query: int
    ) -> Response:
        work = functools.partial(attention_row, stack=stack, layer=layer, head=head, query=query)
        return as_json(await of_run(request, id, work))

    @app.get("/api/runs/{id}/measures")
    async def all_measures(request: Request, id: str) -> Response:
        return as_json(await of_run(request, id, measures.measures))

    @app.get("/api/runs/{id}/find")
    async def found_head(request: Request, id: str, what: str) -> Response:
        run = state.runs.get(id)

        def work(progress: JobMonitor) -> bytes:
            return run.once(f"find {what}", lambda: find_head(run, what, progress))

        return as_json(await state.jobs.run(request, work))

    @app.get("/api/runs/{id}/alignment")
    async def alignment(request: Request, id: str) -> Response:
        def work(run: RecordedRun) -> bytes:
            return run.once("alignment", lambda: measures.alignment(run))

        return as_json(await of_run(request, id, work))

    @app.get("/api/runs/{id}/surprisal")
    async def token_surprisal(request: Request, id: str) -> Response:
        run = state.runs.get(id)

        def work(progress: JobMonitor) -> bytes:
            return run.once("surprisal", lambda: surprisal(run, progress))

        return as_json(await state.jobs.run(request, work))

    @app.get("/api/jobs/{name}")
    async def job(name: str) -> Response:
        return as_json(state.jobs.progress(name))


def _model_row(id: str, served: ServedModel) -> schemas.ModelRow:
    model = served.model
    config = model.task.backbone.config
    return schemas.ModelRow(
        id=id,
        name=served.name,
        family=config.family,
        kind=model.task.spec.kind,
        calls=model.task.spec.traits.calls,
        predicts_tokens=model.task.spec.traits.predicts_tokens,
        pools=pools(model),
        mask=mask_token(model.tokenizer),
        max_length=max_tokens(model),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        stacks=stack_sizes(model),
        samples=samples(served),
        texts=text_set(served),
        note=NO_TOKENIZER if model.tokenizer is None else None,
    )


def _with_steps(row: schemas.ModelRow, served: ServedModel) -> schemas.ModelRow:
    """The row with the checkpoints there are now: a running training adds and deletes some."""
    if served.run is None:
        return row
    return row.model_copy(update={"steps": checkpoints(served.run)})
