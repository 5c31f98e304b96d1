"""The input of `record`: from texts or token ids to a batch, with the names of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glassformer.config import DOCUMENTS
from glassformer.errors import InputError, shown
from glassformer.inference.checks import check_kind, check_tokenizer
from glassformer.inference.documents import batch_ids, read_documents
from glassformer.model import Batch
from glassformer.tasks import Task
from glassformer.text import Tokenizer, plain

NO_TOKENIZER = "this model came without a tokenizer: write token ids, such as 5 7 9"


def record_batch(
    task: Task, tokenizer: Tokenizer | None, what: Any
) -> tuple[Batch, list[str], list[str]]:
    """A batch of one text or document, its tokens, and those of its source if it is a translation.

    Args:
        what: a text, a pair of texts, or token ids; for a translation model (source, target)
    """
    what = plain(what)
    if task.backbone.config.family == "seq2seq":
        if not (isinstance(what, tuple) and len(what) == 2):
            raise InputError("record: a translation model needs (source, target)")
        source, target = _ids(tokenizer, what[0])[0], _target_ids(task, tokenizer, what[1])
        batch = next(task.batches([source], targets=[target]))
        return batch, _names(tokenizer, target), _names(tokenizer, source)
    if isinstance(what, str) and task.spec.pool in DOCUMENTS:
        check_kind(task, "classify")
        documents = read_documents(task, check_tokenizer(tokenizer), [what])
        texts, kinds, counts = batch_ids(task, documents)
        batch = next(task.batches(texts, segments=kinds, documents=counts))
        return batch, _names(tokenizer, [i for row in texts for i in row]), []
    ids, segments = _ids(tokenizer, what)
    own = [segments] if segments and task.backbone.config.segments else None
    batch = next(task.batches([ids], segments=own))
    return batch, _names(tokenizer, ids), []


def read_ids(text: str) -> list[int]:
    """The token ids that a user has written for a model without a tokenizer, such as 5 7 9."""
    words = text.split()
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise InputError(NO_TOKENIZER)
    if max(map(len, words)) > 9:
        raise InputError(f"{shown(max(words, key=len))} is no token id: write smaller numbers")
    return [int(word) for word in words]


def _ids(tokenizer: Tokenizer | None, what: Any) -> tuple[list[int], list[int]]:
    if isinstance(what, str) or (isinstance(what, tuple) and what and isinstance(what[0], str)):
        encoding = check_tokenizer(tokenizer).encode(what)
        return encoding.ids, encoding.segments
    if not isinstance(what, Sequence) or not all(type(number) is int for number in what):
        raise InputError(f"record: {what!r}: give a text, a pair of texts, or a list of token ids")
    return list(what), []


def _target_ids(task: Task, tokenizer: Tokenizer | None, what: Any) -> list[int]:
    """The decoder's input: the start token and the tokens of a text; ids as they are."""
    if not isinstance(what, str):
        return _ids(tokenizer, what)[0]
    encoding = check_tokenizer(tokenizer).target.encode(what)
    pieces = (i for i, special in zip(encoding.ids, encoding.special, strict=True) if not special)
    return [task.backbone.config.ids.start or 0, *pieces]


def _names(tokenizer: Tokenizer | None, ids: Sequence[int]) -> list[str]:
    name: Callable[[int], str] = str if tokenizer is None else tokenizer.readable
    return [name(i) for i in ids]
