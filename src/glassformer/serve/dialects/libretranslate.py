"""The routes of LibreTranslate: translate and languages. Bodies are JSON, or forms."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, ValidationError

from glassformer.asgi.requests import (
    FORM,
    Refused,
    content_type,
    first_error,
    headers_of,
    read_fields,
)
from glassformer.generate.translate import Translation, prepare_translation
from glassformer.serve.dialects.schemas import Body, ModelName, PlainError, Text, Texts, errors
from glassformer.serve.host import HostedModel
from glassformer.serve.state import ServeState
from glassformer.text import Tokenizer

BEAMS = 4  # as many as `model.translate` has
NAMES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
Code = Annotated[str, Field(min_length=2, max_length=16)]


class TranslateBody(Body):
    q: Text | Texts
    source: Code
    target: Code
    format: Literal["text"] = "text"
    alternatives: int = Field(0, ge=0, le=15)
    api_key: str | None = None
    model: ModelName | None = Field(None, description="The first with these languages, by default.")
    explain: bool = Field(False, description="Also the alignment, heads and logit lens.")


class TranslateAnswer(BaseModel):
    translatedText: str | list[str]  # noqa: N815 - its name in this dialect
    alternatives: list[str] | list[list[str]] | None = None
    explain: list[dict[str, Any]] | None = None


class LanguageRow(BaseModel):
    code: str
    name: str
    targets: list[str]


FORM_AND_JSON = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": TranslateBody.model_json_schema(),
            },
        },
    }
}


def router(state: ServeState) -> APIRouter:
    routes = APIRouter(responses=errors(PlainError))

    @routes.get("/languages", response_model=list[LanguageRow])
    async def languages() -> list[LanguageRow]:
        targets: dict[str, list[str]] = {}
        for hosted in state.host.models.values():
            for source, others in hosted.languages.items():
                targets.setdefault(source, []).extend(others)
        return [
            LanguageRow(code=code, name=NAMES.get(code, code), targets=sorted(set(others)))
            for code, others in sorted(targets.items())
        ]

    @routes.post(
        "/translate", response_model=TranslateAnswer, response_model_exclude_none=True,
        openapi_extra=FORM_AND_JSON,
    )  # fmt: skip
    async def translate(request: Request) -> TranslateAnswer:
        body = await _read(request)
        texts = [body.q] if isinstance(body.q, str) else body.q
        hosted = _choose(state, body)
        state.check_room(request, hosted)
        if body.explain:
            state.check_explained(await state.counts(hosted, texts))
        done = await _translate(state, request, hosted, texts, body)
        explained = None
        if body.explain:
            pairs = [(each.source, each.text) for each in done]
            explained = await state.explain(request, hosted, pairs)
        lists = [[other.text for other in each.others] for each in done]
        if isinstance(body.q, str):
            best: str | list[str] = done[0].text
            others: Any = lists[0]
        else:
            best, others = [each.text for each in done], lists
        return TranslateAnswer(
            translatedText=best, alternatives=others if body.alternatives else None,
            explain=explained,
        )  # fmt: skip

    return routes


async def _translate(
    state: ServeState, request: Request, hosted: HostedModel, texts: list[str], body: TranslateBody
) -> list[Translation]:
    model = hosted.model
    tokenizer: Tokenizer | None = model.tokenizer
    assert tokenizer is not None  # noqa: S101 - `Host.load` refuses models without one
    best = 1 + body.alternatives
    source, target = hosted.language_options(body.source, body.target)
    plan = await asyncio.to_thread(
        partial(
            prepare_translation, model.task, tokenizer, texts, origin=model.origin, source=source,
            target=target, n_best=best, num_beams=max(BEAMS, best),
        )
    )  # fmt: skip
    parts = await state.generate(request, hosted, plan.job) if plan.job.prompts else []
    return plan.join(parts[i : i + best] for i in range(0, len(parts), best))


def _choose(state: ServeState, body: TranslateBody) -> HostedModel:
    """The model with these languages."""
    if body.model is not None:
        able = [state.host.choose(body.model, "translate")]
    else:
        able = [each for each in state.host.models.values() if each.able("translate")]
    for hosted in able:
        if body.target in hosted.languages.get(body.source, ()):
            return hosted
    raise Refused(
        400, f"no model translates from {body.source!r} to {body.target!r}: /languages lists them"
    )


async def _read(request: Request) -> TranslateBody:
    """The body in JSON, or of a form."""
    kind = content_type(headers_of(request.scope))
    try:
        fields = read_fields(await request.body(), kind)
        if kind == FORM and fields.get("alternatives", "").isdecimal():
            fields["alternatives"] = int(fields["alternatives"][:6])
        return TranslateBody.model_validate(fields)
    except ValidationError as error:
        raise Refused(400, first_error(error.errors())) from None
    except ValueError:
        raise Refused(400, "the body is neither a JSON object nor a form: write one") from None
