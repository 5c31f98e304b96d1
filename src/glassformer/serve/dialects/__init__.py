"""The routes by the server whose clients they serve, and how each of them reports an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Error = Callable[[int, str], dict[str, Any]]
OPENAI_TYPES = {
    401: "authentication_error", 404: "not_found_error", 413: "invalid_request_error",
    429: "rate_limit_error",
}  # fmt: skip
NO_ROUTE = "not found"  # a path that no dialect has
TEI_TYPES = {413: "Validation", 422: "Tokenizer", 424: "Backend", 429: "Overloaded"}


def openai_error(status: int, line: str) -> dict[str, Any]:
    usual = "server_error" if status >= 500 or status == 424 else "invalid_request_error"
    kind = OPENAI_TYPES.get(status, usual)
    code = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}.get(status)
    if line == NO_ROUTE:
        code = "unknown_url"
    return {"error": {"message": line, "type": kind, "param": None, "code": code}}


def tei_error(status: int, line: str) -> dict[str, Any]:
    usual = "Unhealthy" if status >= 500 else "Validation"
    return {"error": line, "error_type": TEI_TYPES.get(status, usual)}


def jina_error(status: int, line: str) -> dict[str, Any]:
    return {"detail": line}


def plain_error(status: int, line: str) -> dict[str, Any]:
    """That of LibreTranslate, and of our own routes."""
    return {"error": line}


ERRORS: dict[str, Error] = {
    "/v1/rerank": jina_error, "/embed": tei_error, "/rerank": tei_error, "/predict": tei_error,
    "/info": tei_error,
}  # fmt: skip
FORM_PATHS = ("/translate", "/languages")  # their clients send forms, with the key in them


def error_body(path: str, status: int, line: str) -> dict[str, Any]:
    """An error in the shape of the dialect that a path belongs to."""
    usual = openai_error if path.startswith("/v1/") else plain_error
    return ERRORS.get(path, usual)(status, line)
