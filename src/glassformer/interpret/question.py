"""A question to a language model: why this word and not that one, at this token?

Every method of this room answers it in one number, logit(answer) − logit(other).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import ConfigError, InputError
from glassformer.glass.edits import word_id
from glassformer.glass.lens import language_model
from glassformer.inference import record_batch
from glassformer.loaded import Model
from glassformer.model import Batch, Sequences
from glassformer.tasks import CausalLM, MaskedLM


@dataclass(frozen=True, eq=False)
class Question:
    """A text of a model, a token of it, and two words to compare there."""

    model: Model
    task: MaskedLM | CausalLM
    batch: Batch  # of one text
    tokens: list[str]
    source_tokens: list[str]
    position: int
    answer: int
    other: int

    @property
    def words(self) -> tuple[str, str]:
        tokenizer = self.model.tokenizer
        name = str if tokenizer is None else tokenizer.readable
        return name(self.answer), name(self.other)

    def side(self, stack: str) -> list[str]:
        """The tokens that a stack reads."""
        return self.source_tokens if stack == "encoder" and self.source_tokens else self.tokens

    def difference(self, logits: Tensor) -> Tensor:  # (…, V) → (…)
        return logits[..., self.answer] - logits[..., self.other]

    @torch.no_grad()
    def value(self) -> float:
        """logit(answer) − logit(other) of the whole model."""
        return float(self.difference(self.task(self.copies(1)).logits)[0])

    def copies(self, count: int) -> Batch:
        """The text `count` times, with logits at the question's token only."""
        row, length = _repeated(self.batch, count), len(self.tokens)
        at = torch.arange(count, device=row.tokens.device) * length + self.position
        return replace(row, label_positions=at)


def ask(
    model: Model, what: Any, answer: str | int | None = None, other: str | int | None = None, *,
    position: int | None = None,
) -> Question:  # fmt: skip
    """A question about one text.

    Args:
        what: the input of `record`; for a translation model (source, target)
        answer: a word or its token id; the model's best one, if not given
        other: the word to compare with; the model's second best, if not given
        position: the number of the token that predicts; the mask of an encoder, the last token of
            a decoder, if not given
    """
    task = language_model(model)
    if model.training:
        raise InputError("the model is in training mode: call model.eval() first")
    mask = None if model.tokenizer is None else find_id(model.tokenizer, MASK)
    if isinstance(what, str) and model.tokenizer is not None and mask is not None:
        what = what.replace(MASK[0], model.tokenizer.token(mask))  # whatever the model calls it
    batch, tokens, source = record_batch(task, model.tokenizer, what)
    place = _position(task, batch, tokens, position, mask)
    question = Question(model, task, batch, tokens, source, place, 0, 0)
    with torch.no_grad():
        best = task(question.copies(1)).logits[0].topk(2).indices.tolist()
    first = best[0] if answer is None else _id(model, answer, len(task.backbone.token_embedding))
    rest = [word for word in best if word != first]
    second = rest[0] if other is None else _id(model, other, len(task.backbone.token_embedding))
    if first == second:
        raise ConfigError(f"answer and other are both {question.words[0]!r}: compare two words")
    return replace(question, answer=first, other=second)


def ask_pair(
    model: Model, clean: Any, corrupted: Any, answer: str | int | None = None,
    other: str | int | None = None, *, position: int | None = None,
) -> tuple[Question, Question]:  # fmt: skip
    """The same question about two texts of the same number of tokens.

    Args:
        clean: the text whose prediction is to be explained
        corrupted: the same text with other words
        other: what the model predicts for the corrupted text, if not given
    """
    if other is None:
        there = ask(model, corrupted, position=position)
        first = answer if answer is not None else ask(model, clean, position=position).answer
        first = _id(model, first, len(there.task.backbone.token_embedding))
        other = there.answer if there.answer != first else there.other
    one = ask(model, clean, answer, other, position=position)
    _, tokens, source = record_batch(one.task, model.tokenizer, corrupted)
    for old, new in ((one.tokens, tokens), (one.source_tokens, source)):
        if len(old) != len(new):
            raise InputError(
                f"the texts have {len(old)} and {len(new)} tokens: write two that have the same "
                "number of tokens"
            )
    return one, ask(model, corrupted, one.answer, one.other, position=one.position)


def _position(
    task: MaskedLM | CausalLM, batch: Batch, tokens: list[str], position: int | None,
    mask: int | None,
) -> int:  # fmt: skip
    if position is not None:
        if not 0 <= position < len(tokens):
            raise ConfigError(f"position = {position}: the text has tokens 0 to {len(tokens) - 1}")
        return position
    if isinstance(task, CausalLM):
        return len(tokens) - 1
    places = [] if mask is None else (batch.tokens == mask).nonzero().flatten().tolist()
    if not places:
        raise InputError("the text has no mask: write [MASK] in it, or give a position")
    return int(places[0])


def _id(model: Model, word: str | int, size: int) -> int:
    if isinstance(word, str):
        return word_id(model, word, target=model.config.family == "seq2seq")
    if not 0 <= word < size:
        raise ConfigError(f"token id {word}: this model has 0 to {size - 1}")
    return word


def _repeated(batch: Batch, count: int) -> Batch:
    lengths, device = batch.sequences.lengths * count, batch.tokens.device
    return replace(
        batch,
        tokens=batch.tokens.repeat(count),
        sequences=Sequences.of(lengths, device=device),
        segments=None if batch.segments is None else batch.segments.repeat(count),
        source=None if batch.source is None else _repeated(batch.source, count),
    )
