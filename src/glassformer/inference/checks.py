"""Which model can do what."""

from __future__ import annotations

from glassformer.config import TaskKind
from glassformer.errors import InputError
from glassformer.tasks import Task

NEEDS: dict[str, tuple[TaskKind, ...]] = {
    "fill": ("masked_lm", "masked_lm_nsp"),
    "follows": ("next_sentence", "masked_lm_nsp"),
    "classify": ("classification",),
    "tag": ("token_classification",),
    "answer": ("question_answering",),
}
FITS: dict[TaskKind, str] = {
    "features": "embed",
    "masked_lm": "fill",
    "masked_lm_nsp": "fill or follows",
    "next_sentence": "follows",
    "causal_lm": "generate",
    "translation": "translate",
    "classification": "classify",
    "token_classification": "tag",
    "question_answering": "answer",
}


def check_kind(task: Task, call: str) -> None:
    """A model without the right head gets one line that says what it is for."""
    kind = task.spec.kind
    if call not in NEEDS:  # vectors: every stack has them, but which of two?
        if task.backbone.config.family == "seq2seq":
            raise InputError(
                f"{call}: a translation model reads and writes; this call is for others"
            )
    elif kind not in NEEDS[call]:
        raise InputError(
            f"{call}: this is a {kind} model, use {FITS[kind]}; "
            f"or open one of kind {' or '.join(NEEDS[call])}"
        )


def check_top_k(top_k: int | None, call: str) -> None:
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise InputError(f"{call}: top_k = {top_k!r}: write a whole number from 1 on")
