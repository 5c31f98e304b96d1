"""Parts of the schemas that several dialects share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from glassformer.serve.state import MAX_TEXTS

MAX_CHARACTERS = 1 << 20
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class Body(BaseModel):
    """A request: no unknown fields, no numbers in strings, no infinite numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PlainError(BaseModel):
    """One line that says what is wrong."""

    error: str


class TypedError(BaseModel):
    error: str
    error_type: str


class DetailError(BaseModel):
    detail: str


class OpenAIErrorBody(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    error: OpenAIErrorBody


STATUSES = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 424, 429, 500, 503, 504)


def errors(kind: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """All errors that a route may answer with, for the OpenAPI description."""
    return {status: {"model": kind} for status in STATUSES}
