"""Routes that no other server has: fill, classify, tag, answer and follows, each with `explain`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from glassformer.serve.dialects.schemas import Body, ModelName, PlainError, Text, errors
from glassformer.serve.state import ServeState


class OwnBody(Body):
    model: ModelName | None = Field(None, description="The first that can, by default.")
    explain: bool = Field(False, description="Also the tokens, heads and logit lens.")


class TextBody(OwnBody):
    text: Text


class FillBody(TextBody):
    top_k: int = Field(5, ge=1, le=100)


class PairBody(OwnBody):
    a: Text
    b: Text


class QuestionBody(OwnBody):
    question: Text
    context: Text
    top_k: int = Field(1, ge=1, le=100)
    no_answer: bool = False


class Explanation(BaseModel):
    tokens: list[str]
    source_tokens: list[str]
    heads: dict[str, list[list[str]]]
    lens: list[dict[str, Any]]
    alignment: list[list[int]]


class OwnAnswer(BaseModel):
    model: str
    explain: Explanation | None = None


class FillAnswer(OwnAnswer):
    blanks: list[dict[str, Any]]


class ClassifyAnswer(OwnAnswer):
    label: str
    score: float
    scores: dict[str, float]


class TagAnswer(OwnAnswer):
    words: list[dict[str, Any]]
    spans: list[dict[str, Any]]


class AnswerAnswer(OwnAnswer):
    answers: list[dict[str, Any]]


class FollowsAnswer(OwnAnswer):
    probability: float


def router(state: ServeState) -> APIRouter:
    routes = APIRouter(responses=errors(PlainError))

    async def run(
        request: Request, body: OwnBody, call: str, item: Any, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The result, and the fields that every answer has."""
        hosted = state.host.choose(body.model, call)
        if body.explain:
            state.check_explained(await state.counts(hosted, [item]))
        results, _ = await state.call(request, hosted.name, call, [item], options=options)
        common: dict[str, Any] = {"model": hosted.name}
        if body.explain:
            common["explain"] = (await state.explain(request, hosted, [item]))[0]
        return results[0], common

    @routes.post("/fill", response_model=FillAnswer, response_model_exclude_none=True)
    async def fill(request: Request, body: FillBody) -> FillAnswer:
        blanks, common = await run(request, body, "fill", body.text, top_k=body.top_k)
        return FillAnswer(blanks=[asdict(blank) for blank in blanks], **common)

    @routes.post("/classify", response_model=ClassifyAnswer, response_model_exclude_none=True)
    async def classify(request: Request, body: TextBody) -> ClassifyAnswer:
        result, common = await run(request, body, "classify", body.text)
        return ClassifyAnswer(
            label=result.label, score=result.score, scores=result.scores, **common
        )

    @routes.post("/tag", response_model=TagAnswer, response_model_exclude_none=True)
    async def tag(request: Request, body: TextBody) -> TagAnswer:
        result, common = await run(request, body, "tag", body.text)
        words, spans = map(asdict, result.words), map(asdict, result.spans)
        return TagAnswer(words=list(words), spans=list(spans), **common)

    @routes.post("/answer", response_model=AnswerAnswer, response_model_exclude_none=True)
    async def answer(request: Request, body: QuestionBody) -> AnswerAnswer:
        item, options = (body.question, body.context), {"no_answer": body.no_answer}
        results, common = await run(request, body, "answer", item, top_k=body.top_k, **options)
        return AnswerAnswer(answers=[asdict(each) for each in results], **common)

    @routes.post("/follows", response_model=FollowsAnswer, response_model_exclude_none=True)
    async def follows(request: Request, body: PairBody) -> FollowsAnswer:
        probability, common = await run(request, body, "follows", (body.a, body.b))
        return FollowsAnswer(probability=probability, **common)

    return routes
