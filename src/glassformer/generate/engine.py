"""The engine: prompts are read once, then every step adds one token to every text.

slot 0    The cat sat on  →  the     one step of the model is one row of B tokens,
slot 1    Once upon       →  a       whatever the lengths: the cache knows them
slot 2    (free)          →  ·       a free slot steps along; nobody reads it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate.cuda_graphs import Step, StepGraphs
from glassformer.model import Batch, Cache, Sequences, Visitor
from glassformer.tasks import Ids, Task


class Engine:
    """A model and the cache of a running batch: `slots` texts, each at its own length.

    With `beams` each text has that many neighbouring slots, and they share its source. A visitor
    sees, and may change, every step; where there is none, a GPU plays its steps from tape, of
    kernels that are fused before if it is `compiled` (a minute, once). One that is `kept` for
    other texts does not shrink when these are done.
    """

    def __init__(
        self,
        task: Task,
        *,
        slots: int,
        capacity: int,
        memory_capacity: int = 0,
        beams: int = 1,
        visitor: Visitor | None = None,
        compiled: bool = False,
        kept: bool = False,
    ) -> None:
        words = task.backbone.token_embedding
        self.task, self.capacity, self.beams, self.visitor = task, capacity, beams, visitor
        self.device, self.dtype = words.device, words.dtype
        self.cache = Cache(
            task.backbone.config, slots, capacity, memory_capacity=memory_capacity, beams=beams,
            device=self.device, dtype=self.dtype,
        )  # fmt: skip
        self.sources = [0] * (slots // beams)  # how long each source is
        self.free = set(range(slots))
        # Beams fork and leave at every step: they would need a new tape each time.
        taped = self.device.type == "cuda" and visitor is None and beams == 1
        if compiled and not taped:
            raise InputError("compiled = True: steps are compiled on a GPU only: leave it out")
        step: Step = self._step
        if compiled:  # of one text products are sums, and fuse with what stands beside them
            step = torch.compile(
                step, fullgraph=True, options={"coordinate_descent_tuning": slots == 1}
            )
        self._tapes = StepGraphs(step) if taped else None
        self.shrinks = not (taped or kept)
        self._weights = _places(task)
        self._settle()

    @property
    def taped(self) -> bool:
        return self._tapes is not None

    @property
    def slots(self) -> int:
        return len(self.cache.counts)

    @torch.no_grad()
    def read(
        self, prompts: Ids, slots: Sequence[int] | None = None, *, sources: Ids | None = None
    ) -> Tensor:  # (n, V)
        """Put each prompt into a slot (a text's first beam stands for all); what comes next?"""
        slots = [i * self.beams for i in range(len(prompts))] if slots is None else slots
        longest = max(map(len, prompts))
        if not all(prompts) or longest > self.capacity:
            raise InputError(
                f"prompts of {min(map(len, prompts))} to {longest} tokens: each needs at least "
                f"one, and there is room for {self.capacity}"
            )
        reading = Cache(
            self.task.backbone.config, len(prompts), longest, device=self.device, dtype=self.dtype,
            memory_capacity=max(map(len, sources)) if sources else 0,
        )  # fmt: skip
        source = Batch.of(sources) if sources else None
        batch = Batch.of(prompts, source=source).to(self.device)
        last = batch.sequences.offsets[1:] - 1
        asked = replace(batch, label_positions=last)
        logits: Tensor = self.task(asked, cache=reading, visitor=self.visitor).logits
        texts = [slot // self.beams for slot in slots]
        self.cache.place(reading, texts)
        for i, slot in enumerate(slots):
            self.free -= {*range(slot, slot + self.beams)}
            if sources:
                self.sources[texts[i]] = len(sources[i])
        self._settle()
        return logits.float()

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:  # (B,) → (B, V)
        """One more token for every slot; what comes next?"""
        cache = self.cache
        for slot in self.free:
            if cache.counts[slot] + 1 >= self.capacity:  # it only steps along: begin again
                cache.forget(slot)
        return self._step(tokens) if self._tapes is None else self._tapes(tokens, cache)

    def _step(self, tokens: Tensor) -> Tensor:
        ones = torch.arange(len(tokens) + 1, dtype=torch.int32, device=self.device)
        batch = Batch(tokens, Sequences(ones, (1,) * len(tokens), 1))
        logits: Tensor = self.task(batch, cache=self.cache, visitor=self.visitor).logits
        return logits.float()

    def select(self, index: Tensor) -> None:
        """Slot i becomes what slot index[i] was: beams fork; fewer indices, and texts leave."""
        order = index.tolist()
        self.cache.select(index)
        self.free = {i for i, was in enumerate(order) if was in self.free}
        self.sources = [self.sources[i // self.beams] for i in order[:: self.beams]]
        if self._tapes is not None:
            self._settle()

    def leave(self, slot: int) -> None:
        """This slot is free: it steps along unheard until another prompt is read into it."""
        self.free.add(slot)
        self.cache.forget(slot)

    def check_fits(self, task: Task, tokens: int, source: int, beams: int) -> None:
        """Can texts of this many tokens be written here?"""
        if task is not self.task or beams > 1 or self.beams > 1:
            raise InputError("engine: make it with the engine(…) of this model, for one beam")
        if self._weights != _places(task):
            raise InputError("engine: the model's weights are not where they were: make it anew")
        room = self.cache.memory_capacity
        if tokens > self.capacity or source > room:
            raise InputError(
                f"engine: it has room for {self.capacity} tokens and sources of {room}, and "
                f"{tokens} and {source} are needed: make it larger, or lower max_new_tokens"
            )

    def _settle(self) -> None:
        """Tell the cache how long its sources are, at a place where tapes find it."""
        least = min(1, self.cache.memory_capacity)  # softmax over nothing is no number
        found = Sequences.of([max(least, each) for each in self.sources], device=self.device)
        if self._tapes is None:
            self.cache.memory = found
            return
        if self.cache.memory is None or self.cache.memory.count != found.count:
            self.cache.memory = replace(found, lengths=(), longest=self.cache.memory_capacity)
        self.cache.memory.offsets.copy_(found.offsets)


def _places(task: Task) -> list[int]:
    """Where the weights stand in memory: a tape reads them there, whatever became of them."""
    return [each.data_ptr() for each in (*task.parameters(), *task.buffers())]
