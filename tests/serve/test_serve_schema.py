"""Schemathesis: requests by the schema and against it; every answer is one that the schema has."""

from __future__ import annotations

import json
import urllib.request

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import booleans

from serve.tei_schema import TEI

# Random names are no models and no languages: let most requests reach a model, and generate few
# tokens.
MODELS = {
    "/v1/completions": "gf-decoder", "/v1/chat/completions": "gf-decoder",
    "/v1/embeddings": "gf-encoder", "/v1/rerank": "reranker", "/translate": "gf-en-ru",
    "/fill": "gf-encoder", "/follows": "gf-encoder", "/classify": "classifier", "/tag": "tagger",
    "/answer": "reader",
}  # fmt: skip
MASKED = "The cat [MASK] here."
WORDS = {"/translate": {"source": "en", "target": "ru"}, "/fill": {"text": MASKED}}
MOST = {"max_tokens": 4, "max_completion_tokens": 4, "n": 2}
PATHS = (
    *MODELS, "/embed", "/rerank", "/predict", "/info", "/languages", "/v1/models",
    "/v1/models/{name}", "/health", "/ready", "/metrics", "/queue", "/models/load",
    "/models/unload",
)  # fmt: skip
QUICK = ("/translate",)


def operations(description):
    import schemathesis  # slow, and not every test needs it

    schema = schemathesis.openapi.from_dict(description)
    return [each.ok() for each in schema.get_all_operations()]


def fuzz(operation, url: str, mode: object, count: int) -> None:
    from schemathesis.specs.openapi import checks

    answers = (
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.status_code_conformance,
    )

    @settings(
        max_examples=count, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(case=operation.as_strategy(mode), is_usual=booleans())
    def run(case, is_usual) -> None:
        if isinstance(case.body, dict):
            make_cheap(operation.path, case.body, is_usual=is_usual)
        response = case.call(base_url=url, timeout=120)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=list(answers))

    run()


def make_cheap(path: str, body: dict[str, object], *, is_usual: bool) -> None:
    """Name a model that can do it, and ask for few tokens; what has another type stays."""
    words = {"model": MODELS.get(path), **(WORDS.get(path, {}) if is_usual else {})}
    for name, word in words.items():
        if word is not None and isinstance(body.get(name), str):
            body[name] = word
    for name, most in MOST.items():
        number = body.get(name)
        if type(number) is int and number > most:
            body[name] = most
    if "completions" in path:
        body.setdefault("max_tokens", 4)


def both(operation, url: str, count: int) -> None:
    """Cases by the schema and against it."""
    from schemathesis import GenerationMode

    fuzz(operation, url, GenerationMode.POSITIVE, count)
    if operation.body or operation.query:
        fuzz(operation, url, GenerationMode.NEGATIVE, count)


def described(server):
    with urllib.request.urlopen(f"{server.url}/openapi.json") as response:
        return operations(json.load(response))


def test_every_path_is_tried(server) -> None:
    """One case of each kind here; 500 in the slow form."""
    every = described(server)
    assert {each.path for each in every} == set(PATHS)
    for operation in every:
        if operation.path in QUICK:
            both(operation, server.url, 1)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_no_answer_outside_the_schema(small_server, path: str) -> None:
    for operation in described(small_server):
        if operation.path == path:
            both(operation, small_server.url, 500)


@pytest.mark.slow
def test_no_answer_outside_the_schema_of_text_embeddings_inference(small_server) -> None:
    for operation in operations(TEI):
        both(operation, small_server.url, 500)
