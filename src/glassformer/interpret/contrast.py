"""A contrast: two words that a language model could predict at one token of a text.

Every method of `interpret` explains one number, logit(answer) − logit(other).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.adapters import merged
from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import ConfigError, InputError
from glassformer.glass.edits import word_id
from glassformer.glass.lens import language_model
from glassformer.inference import record_batch
from glassformer.loaded import Model
from glassformer.model import Attention, Batch, Sequences
from glassformer.tasks import CausalLM, MaskedLM, build_task


@dataclass(frozen=True, eq=False)
class Contrast:
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

    @property
    def length(self) -> int:
        """The number of tokens that the model reads, with those of a source."""
        return len(self.tokens) + len(self.source_tokens)

    def side(self, stack: str) -> list[str]:
        """The tokens that a stack reads."""
        return self.source_tokens if stack == "encoder" and self.source_tokens else self.tokens

    def difference(self, logits: Tensor) -> Tensor:  # (…, V) → (…)
        return logits[..., self.answer] - logits[..., self.other]

    @torch.no_grad()
    def value(self) -> float:
        """logit(answer) − logit(other) of the whole model."""
        return float(self.difference(self.task(self.copies(1)).logits)[0])

    def untrained(self, seed: int = 0) -> Contrast:
        """The same text and words for the same network with random weights: a control."""
        model = self.model
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            task = build_task(model.config, model.task.spec, device=model.device)
        random = Model(task, model.tokenizer).eval()
        return replace(self, model=random, task=language_model(random))

    def copies(self, count: int) -> Batch:
        """The text `count` times, with logits at the token that predicts only."""
        row, length = _repeated(self.batch, count), len(self.tokens)
        at = torch.arange(count, device=row.tokens.device) * length + self.position
        return replace(row, label_positions=at)


def ask(
    model: Model, what: Any, answer: str | int | None = None, other: str | int | None = None, *,
    position: int | None = None,
) -> Contrast:  # fmt: skip
    """Which word does the model predict in this text, and which one is it compared with?

    Args:
        what: the input of `record`; for a translation model (source, target)
        answer: a word or its token id; the model's best one, if not given
        other: the word to compare with; the model's second best, if not given
        position: the number of the token that predicts; the mask of an encoder, the last token of
            a decoder, if not given
    """
    model = _plain(model)
    task = language_model(model)
    mask = None if model.tokenizer is None else find_id(model.tokenizer, MASK)
    batch, tokens, source = record_batch(task, model.tokenizer, _with_own_mask(model, what, mask))
    place = _position(task, batch, tokens, position, mask)
    contrast = Contrast(model, task, batch, tokens, source, place, 0, 0)
    with torch.no_grad():
        best = task(contrast.copies(1)).logits[0].topk(2).indices.tolist()
    first = best[0] if answer is None else _id(model, answer)
    rest = [word for word in best if word != first]
    second = rest[0] if other is None else _id(model, other)
    return _compared(replace(contrast, answer=first, other=second))


def ask_pair(
    model: Model, clean: Any, corrupted: Any, answer: str | int | None = None,
    other: str | int | None = None, *, position: int | None = None,
) -> tuple[Contrast, Contrast]:  # fmt: skip
    """The same two words in two texts of the same number of tokens.

    Args:
        clean: the text whose prediction is to be explained
        corrupted: the same text with other words
        other: what the model predicts for the corrupted text, if not given
    """
    model = _plain(model)
    one = ask(model, clean, answer, position=position)
    two = ask(model, corrupted, position=position)
    for old, new in ((one.tokens, two.tokens), (one.source_tokens, two.source_tokens)):
        if len(old) != len(new):
            raise InputError(
                f"the texts have {len(old)} and {len(new)} tokens: write two that have the same "
                "number of tokens"
            )
    if one.position != two.position:
        raise InputError(
            f"the masks are tokens {one.position} and {two.position} of the texts: write both at "
            "the same place, or give a position"
        )
    if other is None:
        second = two.answer if two.answer != one.answer else two.other
    else:
        second = _id(model, other)
    one, two = (replace(each, answer=one.answer, other=second) for each in (one, two))
    return _compared(one), _compared(two)


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


def _id(model: Model, word: str | int) -> int:
    size, target = len(model.task.backbone.token_embedding), model.config.family == "seq2seq"
    id = word_id(model, word, target=target) if isinstance(word, str) else word
    if not 0 <= id < size:
        raise ConfigError(f"token id {id}: this model has 0 to {size - 1}")
    return id


def _compared(contrast: Contrast) -> Contrast:
    if contrast.answer == contrast.other:
        raise ConfigError(f"answer and other are both {contrast.words[0]!r}: compare two words")
    return contrast


def _plain(model: Model) -> Model:
    """The model with its adapter added to its weights, which the methods read."""
    task = language_model(model)
    if model.training:
        raise InputError("the model is in training mode: call model.eval() first")
    plain = merged(task)
    outputs = [module.output for module in plain.modules() if isinstance(module, Attention)]
    if not all(type(each) is nn.Linear for each in outputs):
        raise InputError("the model's weights are quantized: use the model that it was made from")
    return model if plain is task else Model(plain, model.tokenizer).eval()


def _with_own_mask(model: Model, what: Any, mask: int | None) -> Any:
    """The text with the mask as this model writes it, where there is a [MASK]."""
    if isinstance(what, tuple):
        return tuple(_with_own_mask(model, each, mask) for each in what)
    if not isinstance(what, str) or model.tokenizer is None or mask is None:
        return what
    return what.replace(MASK[0], model.tokenizer.token(mask))


def _repeated(batch: Batch, count: int) -> Batch:
    lengths, device = batch.sequences.lengths * count, batch.tokens.device
    return replace(
        batch,
        tokens=batch.tokens.repeat(count),
        sequences=Sequences.of(lengths, device=device),
        segments=None if batch.segments is None else batch.segments.repeat(count),
        source=None if batch.source is None else _repeated(batch.source, count),
    )
