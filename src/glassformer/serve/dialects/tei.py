"""The routes of Text Embeddings Inference: embed, rerank, predict and info."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, RootModel

from glassformer.serve.dialects.openai import shortened
from glassformer.serve.dialects.schemas import Body, ModelName, Text, Texts, TypedError, errors
from glassformer.serve.host import HostedModel
from glassformer.serve.state import MAX_TEXTS, ServeState
from glassformer.version import __version__

Model = Annotated[
    ModelName | None, Query(description="The model's name; by default the first that can.")
]
OneOrPair = Annotated[list[Text], Field(min_length=1, max_length=2)]
Direction = Literal["Right", "right"]  # only the end of a text is cut


class EmbedBody(Body):
    inputs: Text | Texts
    normalize: bool = True
    truncate: bool | None = False
    truncation_direction: Direction = "Right"
    prompt_name: str | None = None
    dimensions: int | None = Field(None, ge=1, le=1 << 20)


class RerankBody(Body):
    query: Text
    texts: Texts
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool | None = False
    truncation_direction: Direction = "Right"


class PredictBody(Body):
    inputs: Text | OneOrPair | Annotated[list[OneOrPair], Field(min_length=1, max_length=MAX_TEXTS)]
    raw_scores: bool = False
    truncate: bool | None = False
    truncation_direction: Direction = "Right"


class RankRow(BaseModel):
    index: int
    score: float
    text: str | None = None


class LabelRow(BaseModel):
    score: float
    label: str


class Info(BaseModel):
    model_id: str
    model_sha: str | None
    model_dtype: str
    model_type: dict[str, Any] | str
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str
    sha: str | None
    docker_label: str | None


Vectors = RootModel[list[list[float]]]
Ranks = RootModel[list[RankRow]]
Labels = RootModel[list[LabelRow] | list[list[LabelRow]]]


def router(state: ServeState) -> APIRouter:
    routes = APIRouter(responses=errors(TypedError))

    @routes.post("/embed", response_model=Vectors)
    async def embed(request: Request, body: EmbedBody, model: Model = None) -> Response:
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        options = {"normalize": body.normalize, "prompt_name": body.prompt_name}
        rows, _ = await state.call(
            request, model, "embed", texts, options=options, truncates=bool(body.truncate)
        )
        if body.dimensions is not None:
            rows = [shortened(row, body.dimensions) for row in rows]
        return _json(Vectors([np.asarray(row).tolist() for row in rows]))

    @routes.post("/rerank", response_model=Ranks)
    async def rerank(request: Request, body: RerankBody, model: Model = None) -> Response:
        rows, _ = await rank_rows(
            state, request, model, body.query, body.texts, raw_scores=body.raw_scores,
            truncates=bool(body.truncate),
        )  # fmt: skip
        if body.return_text:
            rows = [row.model_copy(update={"text": body.texts[row.index]}) for row in rows]
        return _json(Ranks(rows), skip_none=True)

    @routes.post("/predict", response_model=Labels)
    async def predict(request: Request, body: PredictBody, model: Model = None) -> Response:
        one = isinstance(body.inputs, str) or isinstance(body.inputs[0], str)
        inputs: list[Any] = [body.inputs] if one else list(body.inputs)
        items = [_text(item) for item in inputs]
        results, _ = await state.call(
            request, model, "classify", items, options={"raw_scores": body.raw_scores},
            truncates=bool(body.truncate),
        )  # fmt: skip
        rows = [
            [LabelRow(label=label, score=score) for label, score in result.scores.items()]
            for result in results
        ]
        return _json(Labels(rows[0] if one else rows))

    @routes.get("/info", response_model=Info)
    async def info(model: Model = None) -> Info:
        return _info(state.host.choose(model, "embed"))

    return routes


async def rank_rows(
    state: ServeState, request: Request, model: str | None, query: str, texts: list[str], *,
    raw_scores: bool = False, truncates: bool = True,
) -> tuple[list[RankRow], int]:  # fmt: skip
    """The texts by their relevance to the query, best first; and the tokens of all pairs."""
    pairs = [(query, text) for text in texts]
    scores, counts = await state.call(
        request, model, "rank", pairs, options={"raw_scores": raw_scores}, truncates=truncates
    )
    rows = [RankRow(index=i, score=score) for i, score in enumerate(scores)]
    return sorted(rows, key=lambda row: -row.score), sum(counts)


def _text(item: str | list[str]) -> str | tuple[str, str]:
    if isinstance(item, str):
        return item
    return (item[0], item[1]) if len(item) == 2 else item[0]


def _info(hosted: HostedModel) -> Info:
    model, scheduler = hosted.model, hosted.scheduler
    dtype = str(model.task.backbone.token_embedding.dtype).removeprefix("torch.")
    labels = model.task.spec.labels
    kind: dict[str, Any] = {"embedding": {"pooling": "+".join(model.recipe.pool)}}
    if labels:
        names = {str(i): label for i, label in enumerate(labels)}
        ids = {label: i for i, label in enumerate(labels)}
        head = "reranker" if len(labels) == 1 else "classifier"
        kind = {head: {"id2label": names, "label2id": ids}}
    return Info(
        model_id=hosted.name, model_sha=None, model_dtype=dtype, model_type=kind,
        max_concurrent_requests=scheduler.slots, max_input_length=model.config.max_length,
        max_batch_tokens=scheduler.batch_tokens, max_batch_requests=None,
        max_client_batch_size=MAX_TEXTS, auto_truncate=False, tokenization_workers=1,
        version=__version__, sha=None, docker_label=None,
    )  # fmt: skip


def _json(content: BaseModel, *, skip_none: bool = False) -> Response:
    return Response(content.model_dump_json(exclude_none=skip_none), media_type="application/json")
