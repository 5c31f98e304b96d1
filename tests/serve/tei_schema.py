"""What Text Embeddings Inference publishes about four of its routes, as an OpenAPI description."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
IDS: Schema = {"type": "array", "items": {"type": "integer", "format": "int32", "minimum": 0}}
NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
COUNT: Schema = {"type": "integer", "minimum": 0}


def array(items: Schema, **more: int) -> Schema:
    return {"type": "array", "items": items, **more}


def one_of(*kinds: Schema) -> Schema:
    return {"oneOf": list(kinds)}


def record(required: str, **fields: Schema) -> Schema:
    return {"type": "object", "required": required.split(), "properties": fields}


def nullable(kind: Schema) -> Schema:
    return {**kind, "nullable": True}


FLAG: Schema = {"type": "boolean"}
CUT: dict[str, Schema] = {
    "truncate": nullable(FLAG),
    "truncation_direction": {"type": "string", "enum": ["Left", "Right"]},
}
EMBED = record(
    "inputs", inputs=one_of(TEXT, IDS, array(one_of(TEXT, IDS))), normalize=FLAG,
    prompt_name=nullable(TEXT), **CUT,
)  # fmt: skip
RERANK = record(
    "query texts", query=TEXT, texts=array(TEXT), raw_scores=FLAG, return_text=FLAG, **CUT
)
PAIR = array(TEXT, minItems=2, maxItems=2)
SINGLE = array(TEXT, minItems=1, maxItems=1)
PREDICT = record(
    "inputs", inputs=one_of(TEXT, PAIR, array(one_of(SINGLE, PAIR))), raw_scores=FLAG, **CUT
)
RANKS = array(record("index score", index=COUNT, score={"type": "number"}, text=nullable(TEXT)))
LABEL = record("score label", score={"type": "number"}, label=TEXT)
LABELS = {"anyOf": [array(LABEL), array(array(LABEL))]}  # both, if there is none
NAMES = record("id2label label2id", id2label={"type": "object"}, label2id={"type": "object"})
KIND = one_of(
    record("classifier", classifier=NAMES), record("reranker", reranker=NAMES),
    record("embedding", embedding=record("pooling", pooling=TEXT)),
)  # fmt: skip
INFO = record(
    "model_id model_dtype model_type max_concurrent_requests max_input_length max_batch_tokens "
    "max_client_batch_size auto_truncate tokenization_workers version",
    model_id=TEXT, model_sha=nullable(TEXT), model_dtype=TEXT, model_type=KIND,
    max_concurrent_requests=COUNT, max_input_length=COUNT, max_batch_tokens=COUNT,
    max_batch_requests=nullable(COUNT), max_client_batch_size=COUNT, auto_truncate=FLAG,
    tokenization_workers=COUNT, version=TEXT, sha=nullable(TEXT), docker_label=nullable(TEXT),
)  # fmt: skip
TYPES = ["Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer"]
ERROR = record("error error_type", error=TEXT, error_type={"type": "string", "enum": TYPES})


def response(schema: Schema) -> Schema:
    return {"description": "", "content": {"application/json": {"schema": schema}}}


def post(body: Schema, answer: Schema) -> Schema:
    errors = {str(status): response(ERROR) for status in (413, 422, 424, 429)}
    content = {"application/json": {"schema": body}}
    return {
        "post": {
            "requestBody": {"required": True, "content": content},
            "responses": {"200": response(answer), **errors},
        }
    }


TEI: Schema = {
    "openapi": "3.0.3",
    "info": {"title": "Text Embeddings Inference", "version": "1"},
    "paths": {
        "/embed": post(EMBED, array(NUMBERS)),
        "/rerank": post(RERANK, RANKS),
        "/predict": post(PREDICT, LABELS),
        "/info": {"get": {"responses": {"200": response(INFO)}}},
    },
}
