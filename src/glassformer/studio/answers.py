"""From a request's body to a question, from what was found to a response."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Response
from pydantic import BaseModel, ValidationError
from torch import Tensor

from glassformer.errors import InputError

T = TypeVar("T", bound=BaseModel)


def parsed(kind: type[T], body: bytes) -> T:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InputError(first(error.errors())) from None


def first(errors: Any, skip: int = 0) -> str:
    """One line for the first thing that is wrong in a request."""
    where = ".".join(map(str, errors[0]["loc"][skip:]))
    return f"{where}: {errors[0]['msg']}" if where else str(errors[0]["msg"])


def as_json(found: BaseModel) -> Response:
    return Response(found.model_dump_json(), media_type="application/json")


def as_bytes(found: Tensor) -> Response:
    shape = ",".join(map(str, found.shape))
    kind = "application/octet-stream"
    return Response(found.numpy().tobytes(), media_type=kind, headers={"X-Shape": shape})
