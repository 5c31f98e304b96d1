"""Greedy decoding and sampling of many texts at once, with continuous batching.

`slots` texts grow in parallel; when one is finished, the next request takes its slot. A text does
not depend on its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
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
    settings: Settings | None = None  # its own; those of the batch, if not given


class Choice(NamedTuple):
    """A token that was chosen for a text."""

    request: Request
    token: int
    logprob: float | None
    stopped: Stopped | None  # was it the last?
    top: tuple[tuple[int, float], ...] = ()  # the likeliest tokens, if requested
    finite: bool = True  # False: the logits are NaN, the token means nothing, and the text leaves


class AsyncTokens:
    """A row of numbers for each text, being copied from the device: its token first."""

    def __init__(self, chosen: Tensor) -> None:  # (B,) or (B, n)
        self.chosen = chosen.to("cpu", non_blocking=True)
        self.arrived = torch.cuda.Event() if chosen.is_cuda else None
        if self.arrived is not None:
            self.arrived.record()

    def read(self) -> list[list[float]]:
        """Wait for the copy."""
        if self.arrived is not None:
            self.arrived.synchronize()
        rows: list[list[float]] = self.chosen.reshape(len(self.chosen), -1).tolist()
        return rows


@dataclass
class _Text:
    request: Request
    settings: Settings
    rules: Settings
    ids: list[int] = field(default_factory=list)  # the new tokens
    decoder: IncrementalDecoder | None = None  # finds stop strings

    def add(self, token: int) -> Stopped | None:
        self.ids.append(token)
        if token in self.settings.eos_token_id:
            return "end"
        if self.decoder is not None:
            self.decoder.add(token)
            if self.decoder.stopped:
                return "stop"
        return "length" if len(self.ids) == self.request.limit else None


@dataclass
class _Group:
    """The slots whose texts have the same rules."""

    slots: list[int]
    index: Tensor | None  # the same on the device; None: all slots
    steps: tuple[Processor, ...]
    rules: Settings
    rows: LogitRows | None = None


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
    batch = RunningBatch(engine, settings, tokenizer, steps=steps)
    waiting, closed = iter(requests), False
    while True:
        joining: list[Request] = []
        while not closed and len(joining) < batch.free:
            request = next(waiting, _END)
            closed = request is _END
            if not isinstance(request, Request):
                break
            joining.append(request)
        if joining:
            batch.join(joining)
        if batch.active:
            yield from batch.advance(closed=closed)
        elif closed:
            return


_END = object()


class RunningBatch:
    """The texts in the engine's slots, and the logits of what comes next in each.

    Args:
        settings: of the requests that have none of their own
        tokenizer: needed for stop strings
        steps: replace the processors of the settings
        checks_finite: notice logits that are NaN: `Choice.finite`
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        tokenizer: Tokenizer | None = None,
        *,
        steps: tuple[Processor, ...] | None = None,
        checks_finite: bool = False,
    ) -> None:
        self.engine, self.settings, self.tokenizer = engine, settings, tokenizer
        engine.clear()
        self.vocab = engine.task.backbone.config.vocab_size
        self.own_steps, self.checks_finite = steps, checks_finite
        self.texts: list[_Text | None] = [None] * engine.slots
        self.logits = torch.zeros(engine.slots, self.vocab, device=engine.device)
        self.tokens = torch.zeros(engine.slots, dtype=torch.long, device=engine.device)
        self.groups: list[_Group] = []  # empty when texts have joined or left
        self.wide = torch.float32 if engine.device.type == "mps" else torch.float64
        self.ahead = engine.device.type in AHEAD

    @property
    def active(self) -> int:
        return len(self.texts) - self.free

    @property
    def free(self) -> int:
        return self.texts.count(None)

    def join(self, requests: Sequence[Request]) -> None:
        """Read the prompts into free slots."""
        slots = [i for i, text in enumerate(self.texts) if text is None][: len(requests)]
        sources = [request.source for request in requests if request.source is not None]
        logits = self.engine.read(
            [request.prompt for request in requests], slots, sources=sources or None
        )
        index = torch.tensor(slots, device=logits.device)
        self.logits = self.logits.index_copy(0, index, logits)
        for slot, request in zip(slots, requests, strict=True):
            settings = request.settings or self.settings
            text = _Text(request, settings, settings.rules)
            if self.tokenizer is not None and settings.stop:
                text.decoder = IncrementalDecoder(self.tokenizer, settings.stop)
            self.texts[slot] = text
        self.groups = []

    def leave(self, requests: Collection[Request]) -> None:
        """Drop texts that nobody waits for."""
        for slot, text in enumerate(self.texts):
            if text is not None and any(text.request is each for each in requests):
                self.texts[slot] = None
                self.engine.leave(slot)
                self.groups = []

    def advance(self, *, closed: bool = False) -> Iterator[Choice]:
        """Choose one token for each text, and let the engine read them.

        Args:
            closed: no more texts will join, so the batch may shrink
        """
        tokens = self._choose()
        if self.ahead:  # the device computes while the tokens are copied
            self._step()
        yield from self._choices(tokens)
        if closed and 0 < self.active <= len(self.texts) // 2 and self.engine.shrinks:
            self.resize(self.active)
        if not self.ahead:
            self._step()

    @torch.no_grad()  # here and in the engine: a generator would switch it at every token
    def _choose(self) -> AsyncTokens:
        """Choose one token for each text; those that reach their limit leave the engine."""
        self.groups = self.groups or self._grouped()
        for group in self.groups:
            scores = self.logits if group.index is None else self.logits[group.index]
            if group.steps:
                if group.rows is None:
                    group.rows = self._rows(group)
                scores = process(scores, group.rows, group.steps)
            if group.rules.samples:
                tokens = draw(scores, self._random(group.slots))
            else:
                tokens = largest(scores, 1)[1][:, 0]
            if group.index is None:
                self.tokens = tokens
            else:
                self.tokens = self.tokens.index_copy(0, group.index, tokens)
        for slot, text in enumerate(self.texts):
            if text is not None and len(text.ids) + 1 == text.request.limit:
                self.engine.leave(slot)
        return AsyncTokens(self._numbers())

    def _numbers(self) -> Tensor:  # (B,) or (B, n)
        """The tokens, and what else the settings ask for: see `_choices`."""
        settings = [text.settings for text in self.texts if text is not None]
        tokens = self.tokens
        if self.checks_finite:  # -1 is no token
            tokens = torch.where(self.logits.amax(-1).isfinite(), tokens, -1)
        columns = [tokens[:, None]]
        if any(each.logprobs for each in settings):
            own = self.logits.log_softmax(-1)
            columns.append(own.gather(1, self.tokens[:, None]))
            if most := max(each.top_logprobs for each in settings):
                best, ids = largest(own, min(most, self.vocab))
                columns += [ids, best]
        if len(columns) == 1:
            return tokens
        return torch.cat([column.to(self.wide) for column in columns], 1)

    def _choices(self, copied: AsyncTokens) -> Iterator[Choice]:
        """The chosen tokens; finished texts leave."""
        rows = copied.read()
        for slot, text in enumerate(self.texts):
            if text is None:
                continue
            token, *rest = rows[slot]
            finite = token >= 0
            logprob: float | None = None
            top: tuple[tuple[int, float], ...] = ()
            if text.settings.logprobs:
                half = len(rest) // 2
                best = zip(map(int, rest[1 : half + 1]), rest[half + 1 :], strict=True)
                logprob, top = rest[0], tuple(best)[: text.settings.top_logprobs]
            stopped = text.add(int(token)) if finite else None
            if stopped is not None or not finite:
                self.texts[slot] = None
                self.engine.leave(slot)
                self.groups = []
            if not finite:
                self.engine.wipe(slot)
            yield Choice(text.request, int(token), logprob, stopped, top, finite)

    def resize(self, slots: int) -> None:
        """Change the number of slots, to at least the number of texts."""
        kept = [i for i, text in enumerate(self.texts) if text is not None]
        order = kept + [kept[0] if kept else 0] * (slots - len(kept))
        index = torch.tensor(order, device=self.engine.device)
        self.engine.select(index)
        self.tokens, self.logits = self.tokens[index], self.logits[index]
        self.texts = [self.texts[i] for i in kept] + [None] * (slots - len(kept))
        for slot in range(len(kept), slots):
            self.engine.leave(slot)
        self.groups = []

    def _step(self) -> None:
        """The engine reads the chosen tokens."""
        if len(self.engine.free) == self.engine.slots:
            self.groups = []
            return
        for group in self.groups:
            if group.rows is not None:
                tokens = self.tokens if group.index is None else self.tokens[group.index]
                group.rows = group.rows.add(tokens)
        self.logits = self.engine.step(self.tokens)

    def _grouped(self) -> list[_Group]:
        """A group for each of the rules; a single one takes the free slots, too."""
        slots: dict[Settings, list[int]] = {}
        for slot, text in enumerate(self.texts):
            if text is not None:
                slots.setdefault(text.rules, []).append(slot)
        groups = []
        for rules, own in slots.items():
            usual = processors(rules, self.vocab, self.engine.device)
            steps = usual if self.own_steps is None else self.own_steps
            if len(slots) == 1:
                groups.append(_Group(list(range(len(self.texts))), None, steps, rules))
            else:
                index = torch.tensor(own, device=self.engine.device)
                groups.append(_Group(own, index, steps, rules))
        return groups

    def _rows(self, group: _Group) -> LogitRows:
        own = [self.texts[slot] for slot in group.slots]
        texts = [() if text is None else (*text.request.prompt, *text.ids) for text in own]
        counts = [0 if text is None else len(text.ids) for text in own]
        limits = [0 if text is None else text.request.limit for text in own]
        remaining = [limit - count for limit, count in zip(limits, counts, strict=True)]
        back = group.rules.looks_back
        return LogitRows.of(texts, counts, remaining, self.engine.device, looks_back=back)

    def _random(self, slots: Sequence[int]) -> Tensor:
        """A pure function of seed, sample and step: the same number alone and in a batch."""
        texts = [self.texts[slot] for slot in slots]
        seeds = [0 if text is None else text.settings.seed or 0 for text in texts]
        samples = [0 if text is None else text.request.sample for text in texts]
        counts = [0 if text is None else len(text.ids) for text in texts]
        numbers = torch.from_numpy(hashing.uniform(seeds, samples, counts))
        return move(numbers.to(self.wide), self.logits.device)
