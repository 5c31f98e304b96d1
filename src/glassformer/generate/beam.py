"""Beam search: the best whole text, not the best next token, among a few that grow in parallel.

    text 0, beam 0   the cat │ sat   -1.2 ┐
    text 0, beam 1   the dog │ ran   -1.9 ┤ the best `kept` of all 2 × V continuations; of those
                               …          ┘ that end a text the best are put into its pool

The device scores and selects the candidates; NumPy arrays keep track of the beams.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.errors import CheckpointError, InputError
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation, Stopped, decode_tokens
from glassformer.generate.processors import LogitRows, largest, process, processors
from glassformer.generate.sampling import Request
from glassformer.generate.settings import Settings
from glassformer.tasks import Ids
from glassformer.text import Tokenizer

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]
IMPOSSIBLE = np.float32(-1e9)  # below every possible score


def beam(
    engine: Engine,
    prompts: Ids,
    settings: Settings,
    sources: Ids | None = None,
    tokenizer: Tokenizer | None = None,
    *,
    watch: Callable[[BeamStep], None] | None = None,
) -> list[list[Generation]]:
    """The best texts for each prompt, the best first; all prompts at the same time.

    Args:
        engine: made with `beams=num_beams`, with at least that many slots for each prompt
        sources: of a translation model, one for each prompt
        tokenizer: needed for stop strings
        watch: called after every step of the search
    """
    B, K = len(prompts), settings.num_beams
    if engine.slots < B * K or engine.beams != K:
        raise InputError(
            f"{B} prompts and num_beams = {K}: the engine has {engine.slots} slots for "
            f"{engine.beams} beams per text: create it with slots={B * K}, beams={K}"
        )
    most = engine.task.backbone.config.max_length
    batch = BeamBatch(engine, settings, tokenizer, watch=watch)
    batch.join(
        [
            Request(i, prompt, settings.room(len(prompt), most), sources[i] if sources else None)
            for i, prompt in enumerate(prompts)
        ]
    )
    done: dict[int, list[Generation]] = {}
    while batch.active:
        finished = batch.advance(closed=engine.shrinks)
        done |= {request.number: texts for request, texts in finished}
    return [done[text] for text in range(B)]


class BeamBatch:
    """Beam searches of the same settings, which texts join and leave between two steps.

    The texts have the first slots of the engine, each K neighbours; the other slots are free.

    Args:
        engine: made with `beams=num_beams`
        tokenizer: needed for stop strings
        watch: called after every step of the search
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        tokenizer: Tokenizer | None = None,
        *,
        watch: Callable[[BeamStep], None] | None = None,
    ) -> None:
        engine.clear()
        vocab, device = engine.task.backbone.config.vocab_size, engine.device
        self.engine, self.settings = engine, settings
        self.requests: dict[int, Request] = {}  # by their ids, which the state knows
        self.steps = processors(settings, vocab, device)
        self.state = _BeamState(settings, tokenizer, watch)
        self.logits = torch.zeros(0, vocab, device=device)  # (B · K, V)
        self.rows = LogitRows.of([], [], [], device, looks_back=settings.looks_back)

    @property
    def active(self) -> int:
        return len(self.requests)

    @property
    def free(self) -> int:
        return self.engine.slots // self.settings.num_beams - self.active

    @torch.no_grad()
    def join(self, requests: Sequence[Request]) -> None:
        """Read the prompts into free slots."""
        B, K, engine = len(requests), self.settings.num_beams, self.engine
        prompts, limits = [each.prompt for each in requests], [each.limit for each in requests]
        sources = [each.source for each in requests if each.source is not None]
        slots = [(self.active + i) * K for i in range(B)]
        logits = engine.read(prompts, slots, sources=sources or None).repeat_interleave(K, 0)
        back = self.settings.looks_back
        rows = LogitRows.of(prompts, [0] * B, limits, engine.device, looks_back=back)
        self.rows = self.rows.join(rows.select(np.arange(B).repeat(K)))
        self.logits = torch.cat([self.logits, logits])
        own = {id(each): each for each in requests}
        self.requests |= own
        self.state.join(list(own), limits)

    @torch.no_grad()
    def advance(self, *, closed: bool = False) -> list[tuple[Request, list[Generation]]]:
        """One step of all searches; returns the best texts of those that are finished.

        Args:
            closed: no more texts will join, so the batch shrinks when a text is finished
        """
        own = self.logits.log_softmax(-1)
        scores = process(own, self.rows, self.steps)
        best = _best(scores, own, self.state.sums, self.settings)
        if np.isnan(best.sums).any():
            for slot in range(self.engine.slots):
                self.engine.wipe(slot)
            raise CheckpointError("the model computed NaN: check its weights")
        index, tokens = self.state.advance(best)
        self._step(index, tokens, closed=closed)
        done, self.state.done = self.state.done, {}
        return [(self.requests.pop(text), best) for text, best in done.items()]

    def _step(self, index: Numbers, tokens: Numbers, *, closed: bool) -> None:
        """The engine reads the tokens of the beams, each of which continues the row index[i]."""
        engine, count = self.engine, len(index)
        if not count:
            for slot in range(len(self.logits)):
                engine.leave(slot)
            self.logits, self.rows = self.logits[:0], self.rows.select(index)
            return
        slots = count if closed else engine.slots
        if not np.array_equal(index, np.arange(len(self.logits))):
            every = np.concatenate([index, np.arange(count, slots)])
            engine.select(torch.from_numpy(every).to(engine.device))
            for slot in range(count, min(len(self.logits), slots)):
                engine.leave(slot)
            self.rows = self.rows.select(index)
        chosen = torch.from_numpy(tokens).to(engine.device)
        self.rows = self.rows.add(chosen)
        if slots > count:
            chosen = torch.cat([chosen, chosen.new_zeros(slots - count)])
        self.logits = engine.step(chosen)[:count]

    def resize(self, texts: int) -> None:
        """Change the number of texts that there is room for, to at least the number of texts."""
        K = self.settings.num_beams
        used = self.active * K
        index = torch.arange(texts * K, device=self.engine.device)
        self.engine.select(torch.where(index < used, index, 0))
        for slot in range(used, texts * K):
            self.engine.leave(slot)

    def leave(self, requests: Collection[Request]) -> None:
        """Drop texts that nobody waits for."""
        gone = [id(each) for each in requests]
        self.requests = {id: each for id, each in self.requests.items() if id not in gone}
        kept = ~np.isin(self.state.texts, gone)
        rows = kept.repeat(self.settings.num_beams).nonzero()[0]
        every = np.concatenate([rows, np.arange(len(rows), self.engine.slots)])
        self.engine.select(torch.from_numpy(every).to(self.engine.device))
        for slot in range(len(rows), len(self.logits)):
            self.engine.leave(slot)
        self.logits = self.logits[torch.from_numpy(rows).to(self.logits.device)]
        self.rows = self.rows.select(rows)
        self.state.keep(kept)


@dataclass(frozen=True, eq=False)
class Candidates:
    """(B, kept) continuations of each text, the best first."""

    sums: Floats  # of the scores of all its tokens
    parents: Numbers  # which beam it continues
    tokens: Numbers  # and how
    logprobs: Floats  # the model's own, before any setting changed it


@dataclass(frozen=True, eq=False)
class BeamStep:
    """One step of the search, for an observer: the texts that were not finished before it."""

    candidates: Candidates
    ended: npt.NDArray[np.bool_]  # (B, kept) which candidates end a text
    order: Numbers  # (B, K) the candidates that become the next beams
    going: npt.NDArray[np.bool_]  # (B,) the texts whose search continues
    pools: list[list[Generation]]  # the finished candidates of each text, the best first


def _best(scores: Tensor, own: Tensor, sums: Floats, settings: Settings) -> Candidates:
    (B, K), V = sums.shape, scores.shape[1]
    best_each, tokens = largest(scores, min(settings.kept, V))  # (B · K, n) the best of each beam
    n = best_each.shape[1]
    total = best_each.view(B, K, n) + torch.from_numpy(sums).to(scores.device)[:, :, None]
    best, where = total.view(B, K * n).topk(min(settings.kept, K * n))
    tokens = tokens.view(B, K * n).gather(1, where)
    parents = where // n
    logprobs = best
    if settings.logprobs:
        logprobs = own.view(B, K * V).gather(1, parents * V + tokens)
    places = torch.stack([parents, tokens]).cpu().numpy()
    numbers = torch.stack([best, logprobs]).cpu().numpy()
    return Candidates(numbers[0], places[0], places[1], numbers[1])


class _BeamState:
    """The beams of the unfinished texts: their tokens and scores."""

    def __init__(
        self,
        settings: Settings,
        tokenizer: Tokenizer | None,
        watch: Callable[[BeamStep], None] | None,
    ) -> None:
        K = settings.num_beams
        self.settings = settings
        self.tokenizer = tokenizer
        self.watch = watch
        self.texts = np.zeros(0, dtype=np.int64)  # the ids of their requests
        self.limits = np.zeros(0, dtype=np.int64)
        self.lengths = np.zeros(0, dtype=np.int64)
        self.sums = np.zeros((0, K), dtype=np.float32)
        # (B, K, T) right-aligned: the last lengths[b] belong to text b
        self.tokens = np.zeros((0, K, 0), dtype=np.int64)
        self.logprobs = np.zeros((0, K, 0), dtype=np.float32)
        self.pools: list[list[Generation]] = []
        self.done: dict[int, list[Generation]] = {}

    def join(self, texts: Sequence[int], limits: Sequence[int]) -> None:
        """Texts without any token yet."""
        B, (_, K) = len(texts), self.sums.shape
        sums = np.full((B, K), IMPOSSIBLE, dtype=np.float32)
        sums[:, 0] = 0.0  # all beams start equal: only the first one counts
        for name, new in (
            ("texts", np.array(texts)), ("limits", np.array(limits)),
            ("lengths", np.zeros(B, dtype=np.int64)), ("sums", sums),
        ):  # fmt: skip
            setattr(self, name, np.concatenate([getattr(self, name), new]))
        longest = int(max(self.lengths))
        self.tokens = _with_rows(self.tokens, B, longest)
        self.logprobs = _with_rows(self.logprobs, B, longest)
        self.pools += [[] for _ in range(B)]

    def advance(self, candidates: Candidates) -> tuple[Numbers, Numbers]:
        """Choose the next beams from the candidates.

        Returns the row of the batch that each new beam continues, and its token; both without the
        texts that are finished now.
        """
        K = self.settings.num_beams
        self.lengths = self.lengths + 1
        ended = self._ended(candidates)
        for b, c in np.argwhere(ended[:, :K]):  # lower candidates only replace beams that end
            self._finish(b, c, candidates)
        sums = candidates.sums + ended * IMPOSSIBLE
        order = np.argsort(-sums, axis=1, kind="stable")[:, :K]
        self.sums = _take(sums, order)
        parents, tokens = _take(candidates.parents, order), _take(candidates.tokens, order)
        self.tokens = _follow(self.tokens, parents, tokens)
        if self.settings.logprobs:
            self.logprobs = _follow(self.logprobs, parents, _take(candidates.logprobs, order))
        going = ~(ended.all(1) | self._decided())
        if self.watch is not None:
            self.watch(BeamStep(candidates, ended, order, going, self.pools))
        index = (np.arange(len(parents))[:, None] * K + parents)[going]
        self._drop_finished(going)
        return index.reshape(-1), tokens[going].reshape(-1)

    def _ended(self, candidates: Candidates) -> npt.NDArray[np.bool_]:  # (B, kept)
        ended = np.isin(candidates.tokens, self.settings.eos_token_id)
        ended |= (self.limits == self.lengths)[:, None]
        if self.settings.stop:
            for b, c in np.argwhere(~ended):
                ended[b, c] = self._has_stop(self._ids(b, c, candidates))
        return ended

    def _ids(self, b: int, c: int, candidates: Candidates) -> list[int]:
        past = _last(self.tokens[b, candidates.parents[b, c]], int(self.lengths[b]) - 1)
        return [*past.tolist(), int(candidates.tokens[b, c])]

    def _finish(self, b: int, c: int, candidates: Candidates) -> None:
        """Add a finished text to the pool, if it is good enough; of equals the earlier stays."""
        if not candidates.sums[b, c] > IMPOSSIBLE / 2:  # an unused beam, or forbidden tokens
            return
        score = candidates.sums[b, c] / np.float32(
            float(self.lengths[b]) ** self.settings.length_penalty
        )
        ids = self._ids(b, c, candidates)
        logprobs = [
            *_last(self.logprobs[b, candidates.parents[b, c]], len(ids) - 1).tolist(),
            float(candidates.logprobs[b, c]),
        ]
        text = Generation(
            ids=tuple(ids),
            stopped=self._stopped(ids),
            score=float(score),
            logprobs=tuple(logprobs) if self.settings.logprobs else (),
        )
        pool = sorted([*self.pools[b], text], key=lambda text: -(text.score or 0.0))
        self.pools[b] = pool[: self.settings.num_beams]

    def _stopped(self, ids: list[int]) -> Stopped:
        if ids[-1] in self.settings.eos_token_id:
            return "end"
        return "stop" if self._has_stop(ids) else "length"

    def _has_stop(self, ids: list[int]) -> bool:
        if self.tokenizer is None or not self.settings.stop:
            return False
        return decode_tokens(self.tokenizer, ids, self.settings.stop)[1]

    def _decided(self) -> npt.NDArray[np.bool_]:  # (B,)
        """Can no unfinished beam become better than the worst of the pool?"""
        K, penalty = self.settings.num_beams, self.settings.length_penalty
        lengths = self.lengths
        if self.settings.early_stopping == "never" and penalty > 0:
            lengths = self.limits  # its greatest length gives its best score
        full = np.array([len(pool) == K for pool in self.pools])
        worst = [p[-1].score if f else IMPOSSIBLE for p, f in zip(self.pools, full, strict=True)]
        best = self.sums[:, 0] / (lengths.astype(float) ** penalty).astype(np.float32)
        hopeless = ~(best > np.array(worst, dtype=np.float32))
        return hopeless | full if self.settings.early_stopping is True else hopeless

    def _drop_finished(self, going: npt.NDArray[np.bool_]) -> None:
        count = self.settings.num_return_sequences
        for text, pool, goes in zip(self.texts.tolist(), self.pools, going, strict=True):
            if not goes:
                if len(pool) < count:
                    raise InputError(
                        f"num_return_sequences = {count}: these settings allow only {len(pool)}: "
                        "write fewer, or allow more tokens"
                    )
                self.done[text] = pool[:count]
        self.keep(going)

    def keep(self, going: npt.NDArray[np.bool_]) -> None:
        """Drop the other texts."""
        self.pools = [pool for pool, goes in zip(self.pools, going, strict=True) if goes]
        for name in ("texts", "limits", "lengths", "sums", "tokens", "logprobs"):
            setattr(self, name, getattr(self, name)[going])


def _take(values: npt.NDArray[Any], order: Numbers) -> npt.NDArray[Any]:
    return np.take_along_axis(values, order, 1)


def _last(values: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """The last of them along the last axis, or all if there are fewer."""
    return values[..., max(0, values.shape[-1] - count) :]


def _with_rows(past: npt.NDArray[Any], count: int, longest: int) -> npt.NDArray[Any]:
    """(B, K, T) → (B + count, K, longest), or less if T is: the last columns and rows of zeros."""
    kept = _last(past, longest)
    return np.concatenate([kept, np.zeros((count, *kept.shape[1:]), kept.dtype)])


def _follow(
    past: npt.NDArray[Any], parents: Numbers, new: npt.NDArray[Any]
) -> npt.NDArray[Any]:  # (B, K, T) → (B, K, T + 1)
    return np.concatenate([_take(past, parents[:, :, None]), new[:, :, None]], 2)
