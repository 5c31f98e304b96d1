"""Which kind of model each call needs."""

from __future__ import annotations

from glassformer.errors import InputError, counted
from glassformer.tasks import Task
from glassformer.tasks.calls import wrong_kind
from glassformer.text import Tokenizer


def check_kind(task: Task, call: str) -> None:
    """InputError if the model does not have the head that `call` needs."""
    if call in ("embed", "word"):  # any single stack gives vectors
        if task.backbone.config.family == "seq2seq":
            raise InputError(
                f"{call}: an encoder-decoder has two stacks: load an encoder or a decoder"
            )
    elif call == "rank":
        if task.spec.kind != "classification" or len(task.spec.labels) != 1:
            raise InputError(
                f"rank: this model ({task.spec.kind}, {counted(len(task.spec.labels), 'labels')}) "
                "is no cross-encoder: load a classification model with one label"
            )
    elif call not in task.spec.traits.calls:
        raise wrong_kind(task, call)


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
