"""Request bodies to schemas, results to HTTP responses."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Response
from pydantic import BaseModel, ValidationError
from torch import Tensor

from glassformer.asgi.requests import first_error
from glassformer.errors import InputError

T = TypeVar("T", bound=BaseModel)


def parse_body(schema: type[T], body: bytes) -> T:
    """Validate a JSON body; raises InputError with one line for the first problem."""
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise InputError(first_error(error.errors())) from None


def as_json(content: BaseModel | bytes) -> Response:
    """A schema, or JSON that is ready."""
    body = content if isinstance(content, bytes) else content.model_dump_json()
    return Response(body, media_type="application/json")


def as_bytes(values: Tensor, power: int = 1) -> Response:
    """The raw bytes of a tensor; its shape is in the header X-Shape, their power in X-Power."""
    headers = {"X-Shape": ",".join(map(str, values.shape)), "X-Power": str(power)}
    media_type = "application/octet-stream"
    return Response(values.numpy().tobytes(), media_type=media_type, headers=headers)
