"""Why this answer: the tokens, heads, logit lens and alignment of one text in one model."""

from __future__ import annotations

from typing import Any

from glassformer.errors import InputError
from glassformer.glass import align_tokens, head_types, lens, stacks
from glassformer.inference import record_batch
from glassformer.loaded import Model, record
from glassformer.tasks import CausalLM, MaskedLM

MAX_TOKENS = 256  # the weights of all heads grow with the square of the length
KEPT = ("*.attention.weights", "*.cross.weights", "*.embedding.out", "*.blocks.*.out", "logits")
LENS_WORDS = 3  # at each token and each layer


def explain(model: Model, what: Any) -> dict[str, Any]:
    """What the model computed for a text, a pair of texts, token ids, or (source, target).

    heads: for each stack, layer and head, what it attends to, such as "previous"; "" if unclear
    lens: the likeliest words at each token, layer by layer, for a language model
    alignment: (source token, target token), for a translation
    """
    _, tokens, source = record_batch(model.task, model.tokenizer, what)
    count = len(tokens) + len(source)
    if count > MAX_TOKENS:
        raise InputError(f"explain: the text has {count} tokens: write at most {MAX_TOKENS}")
    trace = record(model, what, keep=KEPT)
    answer: dict[str, Any] = {
        "tokens": trace.tokens, "source_tokens": trace.source_tokens,
        "heads": {stack: head_types(trace, stack) for stack in stacks(trace)},
        "lens": [], "alignment": [],
    }  # fmt: skip
    if isinstance(model.task, CausalLM | MaskedLM):
        for point, words in lens(model, trace, top_k=LENS_WORDS).items():
            row = {"point": point, "words": words.words}
            answer["lens"].append(row | {"probabilities": words.probabilities.tolist()})
    if trace.source_tokens:
        answer["alignment"] = [list(link) for link in align_tokens(trace).links()]
    return answer
