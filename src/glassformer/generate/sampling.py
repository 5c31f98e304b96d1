"""Greedy decoding and sampling of many texts at once, with continuous batching.

`slots` texts grow in parallel; when one is finished, the next request takes its slot. A text does
not depend on its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.data import hashing
from glassformer.generate.engine import Engine
from glassformer.generate.generation import IncrementalDecoder, Stopped
from glassformer.generate.processors import LogitRows, Processor, largest, process, processors
from glassformer.generate.settings import Settings
from glassformer.model.sequences import move
from glassformer.text import Tokenizer

AHEAD = ("cuda",)  # devices that start a step before the last tokens are on the CPU


@dataclass(frozen=True)
class Request:
    """A text to generate."""

    number: int  # chosen by the caller
    prompt: Sequence[int]  # of a translation model: its start token
    limit: int  # on new tokens
    source: Sequence[int] | None = None  # of a translation model
    sample: int = 0  # which of the samples of one prompt


class Choice(NamedTuple):
    """A token that was chosen for a text."""

    request: Request
    token: int
    logprob: float | None
    stopped: Stopped | None  # was it the last?


class AsyncTokens:
    """Tokens, and perhaps their log-probabilities, that are being copied from the device."""

    def __init__(self, chosen: Tensor) -> None:  # (B,) or (2, B)
        self.chosen = chosen.to("cpu", non_blocking=True)
        self.arrived = torch.cuda.Event() if chosen.is_cuda else None
        if self.arrived is not None:
            self.arrived.record()

    def read(self) -> tuple[list[int], Sequence[float | None]]:
        """Wait for the copy; tokens and log-probabilities."""
        if self.arrived is not None:
            self.arrived.synchronize()
        if self.chosen.dim() == 1:
            return self.chosen.tolist(), [None] * len(self.chosen)
        tokens, logprobs = self.chosen.tolist()
        return [int(token) for token in tokens], logprobs


@dataclass
class _Text:
    request: Request
    ids: list[int] = field(default_factory=list)  # the new tokens
    decoder: IncrementalDecoder | None = None  # finds stop strings

    def add(self, token: int, settings: Settings) -> Stopped | None:
        self.ids.append(token)
        if token in settings.eos_token_id:
            return "end"
        if self.decoder is not None:
            self.decoder.add(token)
            if self.decoder.stopped:
                return "stop"
        return "length" if len(self.ids) == self.request.limit else None


def draw(scores: Tensor, uniform: Tensor) -> Tensor:
    """(B, V) scores and (B,) random numbers from 0 to 1 → (B,) tokens.

    Inverse transform sampling: the number falls into one interval of the cumulative probabilities.
    """
    ends = scores.softmax(-1).to(uniform.dtype).cumsum(-1)  # (B, V)
    place = uniform[:, None] * ends[:, -1:]
    return torch.searchsorted(ends, place, right=True)[:, 0].clamp(max=scores.shape[1] - 1)


def generate_tokens(
    engine: Engine,
    requests: Iterable[Request | None],
    settings: Settings,
    tokenizer: Tokenizer | None = None,
    *,
    steps: tuple[Processor, ...] | None = None,
) -> Iterator[Choice]:
    """Yield every token as it is chosen.

    Args:
        requests: read whenever a slot is free; None means that no request is waiting now
        tokenizer: needed for stop strings
        steps: replace the processors of the settings, to observe or change the scores
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
                joining[-1].decoder = IncrementalDecoder(tokenizer, settings.stop)
        if joining:
            batch.join(joining)
        if batch.active:
            tokens = batch.choose()
            if batch.ahead:  # the device computes while the tokens are copied
                batch.step()
            yield from batch.choices(tokens)
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
        for slot in range(engine.slots):  # an earlier call may have been interrupted
            engine.leave(slot)
        self.settings = settings
        self.vocab = engine.task.backbone.config.vocab_size
        usual = processors(settings, self.vocab, engine.device)
        self.steps = usual if steps is None else steps
        self.texts: list[_Text | None] = [None] * engine.slots
        self.logits = torch.zeros(engine.slots, self.vocab, device=engine.device)
        self.tokens = torch.zeros(engine.slots, dtype=torch.long, device=engine.device)
        self.rows: LogitRows | None = None  # None when texts have joined or left
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
        slots = [i for i, text in enumerate(self.texts) if text is None][: len(texts)]
        requests = [text.request for text in texts]
        sources = [request.source for request in requests if request.source is not None]
        logits = self.engine.read(
            [request.prompt for request in requests], slots, sources=sources or None
        )
        index = torch.tensor(slots, device=logits.device)
        self.logits = self.logits.index_copy(0, index, logits)
        for slot, text in zip(slots, texts, strict=True):
            self.texts[slot] = text
        self.rows = None

    @torch.no_grad()  # here and in the engine: a generator would switch it at every token
    def choose(self) -> AsyncTokens:
        """Choose one token for each text; those that reach their limit leave the engine."""
        scores = self._processed()
        if self.settings.samples:
            self.tokens = draw(scores, self._random())
        else:
            self.tokens = largest(scores, 1)[1][:, 0]
        for slot, text in enumerate(self.texts):
            if text is not None and len(text.ids) + 1 == text.request.limit:
                self.engine.leave(slot)
        if not self.settings.logprobs:
            return AsyncTokens(self.tokens)
        own = self.logits.log_softmax(-1).gather(1, self.tokens[:, None])[:, 0]
        return AsyncTokens(torch.stack([self.tokens.to(self.wide), own.to(self.wide)]))

    def choices(self, copied: AsyncTokens) -> Iterator[Choice]:
        """The chosen tokens; finished texts leave."""
        tokens, logprobs = copied.read()
        for slot, text in enumerate(self.texts):
            if text is not None:
                stopped = text.add(tokens[slot], self.settings)
                if stopped is not None:
                    self.texts[slot] = None
                    self.engine.leave(slot)
                yield Choice(text.request, tokens[slot], logprobs[slot], stopped)

    def shrink(self) -> None:
        """Halve a batch that is half empty, when no request is waiting."""
        if 0 < self.active <= len(self.texts) // 2 and self.engine.shrinks:
            kept = [i for i, text in enumerate(self.texts) if text is not None]
            index = torch.tensor(kept, device=self.engine.device)
            self.engine.select(index)
            self.tokens, self.logits = self.tokens[index], self.logits[index]
            self.texts = [self.texts[i] for i in kept]
            self.rows = None

    def step(self) -> None:
        """The engine reads the chosen tokens."""
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
            self.rows = self._rows()
        return process(self.logits, self.rows, self.steps)

    def _rows(self) -> LogitRows:
        texts = [() if text is None else (*text.request.prompt, *text.ids) for text in self.texts]
        counts = [0 if text is None else len(text.ids) for text in self.texts]
        limits = [0 if text is None else text.request.limit for text in self.texts]
        remaining = [limit - count for limit, count in zip(limits, counts, strict=True)]
        back = self.settings.looks_back
        return LogitRows.of(texts, counts, remaining, self.engine.device, looks_back=back)

    def _random(self) -> Tensor:
        """A pure function of seed, sample and step: the same number alone and in a batch."""
        samples = [0 if text is None else text.request.sample for text in self.texts]
        counts = [0 if text is None else len(text.ids) for text in self.texts]
        numbers = torch.from_numpy(hashing.uniform(self.settings.seed or 0, samples, counts))
        return move(numbers.to(self.wide), self.logits.device)
