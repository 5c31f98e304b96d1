"""Speculative decoding: a draft guesses the next tokens, and the model reads all of them at once.

    text       the cat sat on the │ draft: mat and the
    one pass   logits after  the, mat, and, the
    chosen     mat ✓  and ✓  he ✗     three tokens for one pass; the wrong guess is dropped

A guess is kept only if the token that the model's own logits give, chosen greedily or drawn with
the random number of this step, is the same. So a draft changes the speed and never the text.

Guesses are paid for by the passes that earlier ones saved, and by a fortieth of a pass for each
token: wrong guesses make a long text at most so much slower. The passes of a draft model itself
come on top.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate.engine import Engine
from glassformer.model import Batch
from glassformer.tasks import Ids, Task

MOST = 8  # tokens of a draft; more cost a CPU more than they save
PATTERN = 3  # tokens that must be the same for the text to be looked up
NEAR = 2048  # tokens back to search
GUESS = 1 / 8  # of a pass for one token: what a CPU needs to read one guess more
ALLOWED = 1 / 40  # passes for each token that wrong guesses may cost


class Draft(ABC):
    """Guesses how a text continues."""

    @abstractmethod
    def guess(self, text: Sequence[int], count: int) -> list[int]:
        """At most `count` tokens."""


class PromptLookup(Draft):
    """The tokens that followed the last three where they occurred before, without a model."""

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        end = [*text[-PATTERN:]]
        for start in range(len(text) - PATTERN - 1, max(-1, len(text) - NEAR), -1):
            if text[start] == end[0] and [*text[start : start + PATTERN]] == end:
                after = start + PATTERN
                return [*text[after : after + count]]
        return []


class DraftModel(Draft):
    """A smaller model with the same tokens, which guesses greedily."""

    def __init__(self, task: Task, capacity: int) -> None:
        most = task.backbone.config.max_length
        self.reader = Reader(task, min(capacity, most))

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        room = self.reader.capacity - len(text)
        guesses: list[int] = []
        while len(guesses) < min(count, room):
            logits = self.reader.read_to([*text, *guesses])
            guesses.append(int(logits.argmax()))
        return guesses


class Reader:
    """A model, and the keys and values of one text, which is read from where it last agreed."""

    def __init__(self, task: Task, capacity: int) -> None:
        self.engine = Engine(task, slots=1, capacity=capacity, kept=True)
        self.capacity = capacity
        self.known: list[int] = []  # the tokens in the cache

    def read_to(self, text: list[int]) -> Tensor:  # (V,)
        """The logits after this text."""
        same = next(
            (i for i, pair in enumerate(zip(self.known, text, strict=False)) if pair[0] != pair[1]),
            min(len(self.known), len(text)),
        )
        same = min(same, len(text) - 1)  # the last token is always read, for its logits
        self.engine.cache.cut(0, same)
        logits = several(self.engine, text[same:])
        self.known = text
        return logits[-1]


class SpeculativeEngine(Engine):
    """An engine for one text, whose steps read a draft together with the next token."""

    captures: ClassVar[bool] = False  # each step has another length

    def __init__(self, task: Task, draft: Draft, *, capacity: int) -> None:
        super().__init__(task, slots=1, capacity=capacity, kept=True)
        self.draft = draft
        self.text: list[int] = []
        self.guesses: list[int] = []  # those whose logits are known, after the text
        self.ahead: list[Tensor] = []  # the logits after each of them
        self.length = MOST  # of the next draft
        self.drafted = 0  # guesses of the last one
        self.credit = 0.0  # passes that the next guesses may cost
        self.passes = 0  # of the model, for measurements

    def read(
        self, prompts: Ids, slots: Sequence[int] | None = None, *, sources: Ids | None = None
    ) -> Tensor:  # (1, V)
        self.text, self.guesses, self.ahead = [*prompts[0]], [], []
        self.length, self.drafted, self.credit = MOST, 0, MOST * GUESS
        return super().read(prompts, slots, sources=sources)

    def leave(self, slot: int) -> None:
        self.guesses, self.ahead = [], []
        super().leave(slot)

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:  # (1,) → (1, V)
        token = int(tokens[0])
        self.text.append(token)
        if self.guesses and self.guesses[0] == token:
            self.guesses.pop(0)
            self.credit += 1
            return self.ahead.pop(0)[None]
        self._learn()
        self.cache.cut(0, len(self.text) - 1)
        most = min(self.length, self.capacity - len(self.text), int(self.credit / GUESS))
        self.guesses = self.draft.guess(self.text, most) if most > 0 else []
        self.drafted = len(self.guesses)
        self.credit += ALLOWED - GUESS * self.drafted
        logits = several(self, [token, *self.guesses])
        self.passes += 1
        self.ahead = list(logits[1:])
        return logits[:1]

    def _learn(self) -> None:
        """Guess less after a wrong guess, more after a draft that was right to its end."""
        if self.guesses:
            self.length = max(1, self.length // 2)
        elif self.drafted:
            self.length = min(MOST, 2 * self.length)


def several(engine: Engine, tokens: Sequence[int]) -> Tensor:  # (T, V)
    """Append these tokens to the only text of the engine; the logits after each of them."""
    batch = Batch.of([tokens]).to(engine.device)
    logits: Tensor = engine.task(batch, cache=engine.cache).logits
    return logits.float()


def speculative_engine(task: Task, draft: Task | str, capacity: int) -> SpeculativeEngine:
    """An engine with this draft: another model, or "prompt" to look up the text itself."""
    config = task.backbone.config
    if config.family != "decoder":
        raise InputError("draft: only a decoder uses one: leave it out")
    if isinstance(draft, str):
        if draft != "prompt":
            raise InputError(f"draft = {draft!r}: write 'prompt', or give a model")
        return SpeculativeEngine(task, PromptLookup(), capacity=capacity)
    other = draft.backbone.config
    if other.family != "decoder" or other.vocab_size != config.vocab_size:
        raise InputError(
            f"draft: it is a {other.family} with {other.vocab_size:,} tokens, and the model a "
            f"decoder with {config.vocab_size:,}: give a decoder with the same tokenizer"
        )
    return SpeculativeEngine(task, DraftModel(draft, capacity), capacity=capacity)
