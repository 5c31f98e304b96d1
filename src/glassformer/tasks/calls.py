"""A call that a model does not support: what it is, and what to do instead."""

from __future__ import annotations

from glassformer.config import TRAITS
from glassformer.errors import InputError
from glassformer.tasks.base import Task

FAMILIES = {"encoder": "an encoder", "decoder": "a decoder", "seq2seq": "an encoder-decoder"}
VERBS = {"follows": "tell whether one text follows another"}  # where the call is no verb
SHIPPED = {  # models that come with the package
    "fill": "gf-encoder", "follows": "gf-encoder", "generate": "gf-decoder", "translate": "gf-en-ru"
}  # fmt: skip


def wrong_kind(task: Task, call: str) -> InputError:
    """The error for a model without the head that `call` needs."""
    family, spec = task.backbone.config.family, task.spec
    calls = list(spec.traits.calls)
    if family != "seq2seq" and "embed" not in calls:
        calls.append("embed")  # any single stack gives vectors
    several = f"{', '.join(calls[:-1])} or {calls[-1]}" if len(calls) > 1 else calls[0]
    kinds = " or ".join(kind for kind, traits in TRAITS.items() if call in traits.calls)
    example = f"{kinds} model" + (f", such as {SHIPPED[call]}" if call in SHIPPED else "")
    return InputError(
        f"this model is {FAMILIES[family]} ({spec.kind}) and cannot {VERBS.get(call, call)}: use "
        f"{several}, or load a {example}"
    )
