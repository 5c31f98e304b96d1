"""The route of Jina's reranker."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from glassformer.serve.dialects.schemas import (
    Body,
    DetailError,
    ModelName,
    Text,
    errors,
)
from glassformer.serve.dialects.tei import rank_rows
from glassformer.serve.state import MAX_TEXTS, ServeState


class JinaDocument(Body):
    text: Text


class JinaBody(Body):
    model: ModelName
    query: Text
    documents: Annotated[list[Text | JinaDocument], Field(min_length=1, max_length=MAX_TEXTS)]
    top_n: int | None = Field(None, ge=1)
    return_documents: bool | None = True


class JinaRow(BaseModel):
    index: int
    relevance_score: float
    document: JinaDocument | None = None


class JinaUsage(BaseModel):
    total_tokens: int


class JinaAnswer(BaseModel):
    model: str
    usage: JinaUsage
    results: list[JinaRow]


def router(state: ServeState) -> APIRouter:
    routes = APIRouter(responses=errors(DetailError))

    @routes.post("/v1/rerank", response_model=JinaAnswer, response_model_exclude_none=True)
    async def rerank(request: Request, body: JinaBody) -> JinaAnswer:
        texts = [each if isinstance(each, str) else each.text for each in body.documents]
        ranked, total = await rank_rows(state, request, body.model, body.query, texts)
        rows = [
            JinaRow(
                index=row.index, relevance_score=row.score,
                document=JinaDocument(text=texts[row.index])
                if body.return_documents
                else None,
            )
            for row in ranked[: body.top_n]
        ]  # fmt: skip
        return JinaAnswer(model=body.model, usage=JinaUsage(total_tokens=total), results=rows)

    return routes
