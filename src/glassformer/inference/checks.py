"""Which kind of model each call needs."""

from __future__ import annotations

from glassformer.config import TaskKind
from glassformer.errors import InputError
from glassformer.tasks import Task
from glassformer.text import Tokenizer

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
    """InputError if the model does not have the head that `call` needs."""
    kind = task.spec.kind
    if call not in NEEDS:  # vectors: a model of two stacks has two kinds
        if task.backbone.config.family == "seq2seq":
            raise InputError(
                f"{call}: a translation model has no single stack: load another kind of model"
            )
    elif kind not in NEEDS[call]:
        raise InputError(
            f"{call}: this is a {kind} model: use {FITS[kind]}, "
            f"or load a model of kind {' or '.join(NEEDS[call])}"
        )


def check_tokenizer(tokenizer: Tokenizer | None) -> Tokenizer:
    """The tokenizer; InputError if there is none."""
    if tokenizer is None:
        raise InputError(
            "this model has no tokenizer: put a tokenizer.json into its folder, or give token ids"
        )
    return tokenizer


def check_top_k(top_k: int | None, call: str) -> None:
    """InputError if it is not a positive whole number."""
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise InputError(f"{call}: top_k = {top_k!r}: write a whole number from 1 on")
