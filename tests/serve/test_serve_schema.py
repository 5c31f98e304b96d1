"""Schemathesis: requests by the schema and against it; every answer is one that the schema has."""

from __future__ import annotations

import json
import urllib.request

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from serve.tei_schema import TEI

# A random name is no model: let most requests reach one, and generate few tokens.
MODELS = {
    "/v1/completions": "gf-decoder", "/v1/chat/completions": "gf-decoder",
    "/v1/embeddings": "gf-encoder", "/v1/rerank": "reranker",
}  # fmt: skip
FIRST = ("/translate",)
FEW = {"max_tokens": 4, "max_completion_tokens": 4, "n": 2}


def operations(description):
    import schemathesis  # slow, and not every test needs it

    schema = schemathesis.openapi.from_dict(description)
    return [each.ok() for each in schema.get_all_operations()]


def fuzz(operation, url: str, mode: object, count: int) -> None:
    from schemathesis.specs.openapi import checks

    model = MODELS.get(operation.path)
    answers = (
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.status_code_conformance,
    )

    @settings(
        max_examples=count, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(case=operation.as_strategy(mode))
    def run(case) -> None:
        if isinstance(case.body, dict):
            if model is not None and isinstance(case.body.get("model"), str):
                case.body["model"] = model
            for name, most in FEW.items():
                if type(case.body.get(name)) is int and case.body[name] > most:
                    case.body[name] = most
            if "completions" in operation.path:
                case.body.setdefault("max_tokens", 4)
        response = case.call(base_url=url, timeout=120)
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=list(answers))

    run()


@pytest.mark.parametrize("count", [1, pytest.param(500, marks=pytest.mark.slow)])
def test_no_answer_outside_the_schema(server, count) -> None:
    """With and against the schema: `count` cases each, for every operation, or for a few."""
    from schemathesis import GenerationMode

    with urllib.request.urlopen(f"{server.url}/openapi.json") as response:
        every = operations(json.load(response))
    assert len(every) >= 20
    for operation in every:
        if count == 1 and operation.path not in FIRST:
            continue
        fuzz(operation, server.url, GenerationMode.POSITIVE, count)
        if operation.body or operation.query:
            fuzz(operation, server.url, GenerationMode.NEGATIVE, count)


@pytest.mark.slow
def test_no_answer_outside_the_schema_of_text_embeddings_inference(server) -> None:
    from schemathesis import GenerationMode

    for operation in operations(TEI):
        fuzz(operation, server.url, GenerationMode.POSITIVE, 500)
        if operation.body:
            fuzz(operation, server.url, GenerationMode.NEGATIVE, 500)
