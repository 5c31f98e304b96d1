"""One token after the other, for many texts at once: the best one, or one drawn by chance.

A running batch: `slots` texts are written side by side, a text that is done leaves, and the next
one that waits takes its slot. What a text becomes does not depend on who sits beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.data.hashing import uniform
from glassformer.generate.engine import Engine
from glassformer.generate.generation import IncrementalDecoder, Stopped
from glassformer.generate.processors import LogitRows, Processor, largest, process, processors
from glassformer.generate.settings import Settings
from glassformer.model.sequences import move
from glassformer.text import Tokenizer

AHEAD = ("cuda",)  # where a step can be under way before the last choice is known here


@dataclass(frozen=True)
class Request:
    """A text to write."""

    number: int  # for the caller, to know it by
    prompt: Sequence[int]  # goes on from here; a translator's begins with its start token
    limit: int  # the most new tokens
    source: Sequence[int] | None = None  # what a translator reads
    sample: int = 0  # which of the texts that are drawn for one prompt


class Choice(NamedTuple):
    """A token that was chosen for a text."""

    request: Request
    token: int
    logprob: float | None
    stopped: Stopped | None  # was it the last?


class AsyncTokens:
    """Tokens, and maybe their log-probabilities, on their way from the device: one copy."""

    def __init__(self, chosen: Tensor) -> None:  # (B,) or (2, B)
        self.chosen = chosen.to("cpu", non_blocking=True)
        self.arrived = torch.cuda.Event() if chosen.is_cuda else None
        if self.arrived is not None:
            self.arrived.record()

    def read(self) -> tuple[list[int], Sequence[float | None]]:
        if self.arrived is not None:
            self.arrived.synchronize()
        if self.chosen.dim() == 1:
            return self.chosen.tolist(), [None] * len(self.chosen)
        tokens, logprobs = self.chosen.tolist()
        return [int(each) for each in tokens], logprobs


@dataclass
class _Text:
    request: Request
    made: list[int] = field(default_factory=list)
    spelling: IncrementalDecoder | None = None  # where stop strings are looked for

    def add(self, token: int, settings: Settings) -> Stopped | None:
        self.made.append(token)
        if token in settings.eos_token_id:
            return "end"
        if self.spelling is not None:
            self.spelling.add(token)
            if self.spelling.stopped:
                return "stop"
        return "length" if len(self.made) == self.request.limit else None


def draw(scores: Tensor, chance: Tensor) -> Tensor:
    """(B, V) scores and (B,) numbers from 0 to 1 → (B,) tokens.

    Lay the tokens' chances end to end, from 0 to 1: the number falls on one of them.
    """
    ends = scores.softmax(-1).to(chance.dtype).cumsum(-1)  # (B, V)
    place = chance[:, None] * ends[:, -1:]
    return torch.searchsorted(ends, place, right=True)[:, 0].clamp(max=scores.shape[1] - 1)


@torch.no_grad()
def write(
    engine: Engine,
    requests: Iterable[Request | None],
    settings: Settings,
    tokenizer: Tokenizer | None = None,
    *,
    steps: tuple[Processor, ...] | None = None,
) -> Iterator[Choice]:
    """Every choice as it is made.

    `requests` is asked whenever a slot is free; its None means that nobody waits just now.
    Stop strings need the tokenizer. `steps` stand in place of the settings' own processors: who
    puts himself between them sees the scores on their way, and may choose otherwise.
    """
    batch = _Batch(engine, settings, steps)
    waiting, closed = iter(requests), False
    while True:
        joining: list[_Text] = []
        while not closed and len(joining) < batch.free:
            request = next(waiting, _END)
            closed = request is _END
            if not isinstance(request, Request):
                break
            joining.append(_Text(request))
            if tokenizer is not None and settings.stop:
                joining[-1].spelling = IncrementalDecoder(tokenizer, settings.stop)
        if joining:
            batch.join(joining)
        if batch.active:
            told = batch.choose()
            if batch.ahead:  # the device goes on while its choice is on the way to us
                batch.step()
            yield from batch.tell(told)
            if closed:
                batch.shrink()
            if not batch.ahead:
                batch.step()
        elif closed:
            return


_END = object()


class _Batch:
    """The texts in the engine's slots, and the scores of what comes next in each."""

    def __init__(
        self, engine: Engine, settings: Settings, steps: tuple[Processor, ...] | None
    ) -> None:
        self.engine = engine
        for slot in range(engine.slots):  # somebody may have broken off before
            engine.leave(slot)
        self.settings = settings
        self.vocab = engine.task.backbone.config.vocab_size
        usual = processors(settings, self.vocab, engine.device)
        self.steps = usual if steps is None else steps
        self.texts: list[_Text | None] = [None] * engine.slots
        self.logits = torch.zeros(engine.slots, self.vocab, device=engine.device)
        self.tokens = torch.zeros(engine.slots, dtype=torch.long, device=engine.device)
        self.rows: LogitRows | None = None  # made anew when somebody has come or gone
        self.wide = torch.float32 if engine.device.type == "mps" else torch.float64
        self.ahead = engine.device.type in AHEAD

    @property
    def active(self) -> int:
        return len(self.texts) - self.free

    @property
    def free(self) -> int:
        return self.texts.count(None)

    def join(self, texts: Sequence[_Text]) -> None:
        """Read the prompts into free slots."""
        slots = [i for i, each in enumerate(self.texts) if each is None][: len(texts)]
        requests = [each.request for each in texts]
        sources = [each.source for each in requests if each.source is not None]
        logits = self.engine.read(
            [each.prompt for each in requests], slots, sources=sources or None
        )
        index = torch.tensor(slots, device=logits.device)
        self.logits = self.logits.index_copy(0, index, logits)
        for slot, text in zip(slots, texts, strict=True):
            self.texts[slot] = text
        self.rows = None

    def choose(self) -> AsyncTokens:
        """One token for each text; those that may have no more leave the engine."""
        scores = self._processed()
        if self.settings.samples:
            self.tokens = draw(scores, self._chances())
        else:
            self.tokens = largest(scores, 1)[1][:, 0]
        for slot, text in enumerate(self.texts):
            if text is not None and len(text.made) + 1 == text.request.limit:
                self.engine.leave(slot)
        if not self.settings.logprobs:
            return AsyncTokens(self.tokens)
        own = self.logits.log_softmax(-1).gather(1, self.tokens[:, None])[:, 0]
        return AsyncTokens(torch.stack([self.tokens.to(self.wide), own.to(self.wide)]))

    def tell(self, told: AsyncTokens) -> Iterator[Choice]:
        """What was chosen; texts that are done leave."""
        tokens, logprobs = told.read()
        for slot, text in enumerate(self.texts):
            if text is not None:
                stopped = text.add(tokens[slot], self.settings)
                if stopped is not None:
                    self.texts[slot] = None
                    self.engine.leave(slot)
                yield Choice(text.request, tokens[slot], logprobs[slot], stopped)

    def shrink(self) -> None:
        """When nobody waits, half empty is halved."""
        if 0 < self.active <= len(self.texts) // 2 and self.engine.shrinks:
            kept = [i for i, each in enumerate(self.texts) if each is not None]
            index = torch.tensor(kept, device=self.engine.device)
            self.engine.select(index)
            self.tokens, self.logits = self.tokens[index], self.logits[index]
            self.texts = [self.texts[i] for i in kept]
            self.rows = None

    def step(self) -> None:
        """The engine reads what was chosen."""
        if len(self.engine.free) == self.engine.slots:
            self.rows = None
            return
        if self.rows is not None:
            self.rows = self.rows.add(self.tokens)
        self.logits = self.engine.step(self.tokens)

    def _processed(self) -> Tensor:
        if not self.steps:
            return self.logits
        if self.rows is None:
            self.rows = self._lay_out()
        return process(self.logits, self.rows, self.steps)

    def _lay_out(self) -> LogitRows:
        texts = [() if each is None else (*each.request.prompt, *each.made) for each in self.texts]
        made = [0 if each is None else len(each.made) for each in self.texts]
        limits = [0 if each is None else each.request.limit for each in self.texts]
        left = [limit - count for limit, count in zip(limits, made, strict=True)]
        back = self.settings.looks_back
        return LogitRows.of(texts, made, left, self.engine.device, looks_back=back)

    def _chances(self) -> Tensor:
        """A pure function of seed, sample and step: alone or in a batch, the same number."""
        samples = [0 if each is None else each.request.sample for each in self.texts]
        made = [0 if each is None else len(each.made) for each in self.texts]
        chances = torch.from_numpy(uniform(self.settings.seed, samples, made))
        return move(chances.to(self.wide), self.logits.device)
