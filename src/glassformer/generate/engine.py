"""The decoding engine: prompts are read once, then every step adds one token to every text.

slot 0    The cat sat on  →  the     one step of the model is one row of B tokens,
slot 1    Once upon       →  a       whatever the lengths: the cache knows them
slot 2    (free)          →  ·       a free slot is computed too, and ignored
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate.compiled import CompiledSteps, compile_for_gpu
from glassformer.generate.cuda_graphs import Step, StepGraphs
from glassformer.generate.prefixes import PrefixStore
from glassformer.model import Batch, Cache, Sequences, Visitor
from glassformer.tasks import Ids, Task

FREE_TOKENS = 64  # a free slot starts again after so many: nobody reads it, and attention costs


class Engine:
    """A model and the cache of a running batch: `slots` texts, each at its own length.

    Args:
        slots: how many texts are generated at once
        capacity: the most tokens of a text, the prompt included
        memory_capacity: the most tokens of a translation model's source
        beams: neighbouring slots that belong to one text and share its source
        visitor: sees, and may change, every step; without one, a GPU replays CUDA graphs
        compiled: fuse the kernels of a step with torch.compile (about a minute, once); a CPU
            needs a C++ compiler
        kept: the engine is used for further calls, so it does not shrink at the end of one
        prefixes: prompts that begin like earlier ones are read from there on; not with sources
    """

    captures: ClassVar[bool] = True  # its steps have static shapes: a GPU records CUDA graphs

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
        prefixes: PrefixStore | None = None,
    ) -> None:
        table = task.backbone.token_embedding
        self.task, self.capacity, self.beams, self.visitor = task, capacity, beams, visitor
        self.device, self.dtype, self.prefixes = table.device, table.dtype, prefixes
        self.cache = Cache(
            task.backbone.config, slots, capacity, memory_capacity=memory_capacity, beams=beams,
            device=self.device, dtype=self.dtype,
        )  # fmt: skip
        self.sources = [0] * (slots // beams)  # the length of each source
        self.free = set(range(slots))
        # Beams of an engine for one call leave it when they end, so its shapes change.
        on_gpu = self.device.type == "cuda"
        repeats = visitor is None and self.captures and (beams == 1 or (kept and not on_gpu))
        captured = on_gpu and repeats
        if compiled and not repeats:
            raise InputError(
                "compiled = True: not with a visitor, and with beams only on a CPU and in an "
                "engine that model.engine(…, num_beams=…) creates: leave it out"
            )
        step: Step = self._step
        if compiled and captured:
            step = compile_for_gpu(step, slots)
        self._graphs: StepGraphs | CompiledSteps | None = None
        if captured:
            self._graphs = StepGraphs(step)
        elif compiled:
            self._graphs = CompiledSteps(step)
        self.shrinks = not (captured or kept or compiled)
        self._constant = compiled and captured
        self._weights = _weights_now(task, self._constant)
        self._set_sources()

    @property
    def uses_cuda_graphs(self) -> bool:
        return isinstance(self._graphs, StepGraphs)

    @property
    def slots(self) -> int:
        return len(self.cache.counts)

    @torch.no_grad()
    def read(
        self, prompts: Ids, slots: Sequence[int] | None = None, *, sources: Ids | None = None
    ) -> Tensor:  # (n, V)
        """Read each prompt into a slot, and return the logits of the next token.

        With beams, `slots` are the first of each text. `sources` are for a translation model.
        """
        slots = [i * self.beams for i in range(len(prompts))] if slots is None else slots
        longest = max(map(len, prompts))
        if not all(prompts) or longest > self.capacity:
            raise InputError(
                f"prompts of {min(map(len, prompts))} to {longest} tokens: each must have at "
                f"least one and at most {self.capacity}"
            )
        reading = Cache(
            self.task.backbone.config, len(prompts), longest, device=self.device, dtype=self.dtype,
            memory_capacity=max(map(len, sources)) if sources else 0,
        )  # fmt: skip
        source = Batch.of(sources) if sources else None
        new = prompts
        if self.prefixes is not None:
            known = self.prefixes.fill(reading, prompts)
            new = [prompt[length:] for prompt, length in zip(prompts, known, strict=True)]
        batch = Batch.of(new, source=source).to(self.device)
        last = batch.sequences.offsets[1:] - 1
        batch = replace(batch, label_positions=last)
        logits: Tensor = self.task(batch, cache=reading, visitor=self.visitor).logits
        if self.prefixes is not None:
            self.prefixes.keep(reading, prompts, logits.isfinite().all(-1))  # no NaN
        texts = [slot // self.beams for slot in slots]
        self.cache.place(reading, texts)
        for i, slot in enumerate(slots):
            self.free -= {*range(slot, slot + self.beams)}
            if sources:
                self.sources[texts[i]] = len(sources[i])
        self._set_sources()
        return logits.float()

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:  # (B,) → (B, V)
        """Append one token to every slot, and return the logits of the next one."""
        cache = self.cache
        for slot in self.free:
            if cache.counts[slot] + 1 >= min(self.capacity, FREE_TOKENS):
                cache.cut(slot)
        return self._step(tokens) if self._graphs is None else self._graphs(tokens, cache)

    def _step(self, tokens: Tensor) -> Tensor:
        ones = torch.arange(len(tokens) + 1, dtype=torch.int32, device=self.device)
        batch = Batch(tokens, Sequences(ones, (1,) * len(tokens), 1))
        logits: Tensor = self.task(batch, cache=self.cache, visitor=self.visitor).logits
        return logits.float()

    def select(self, index: Tensor) -> None:
        """Slot i becomes what slot index[i] was: beams fork; fewer indices drop texts."""
        order = index.tolist()
        self.cache.select(index)
        self.free = {i for i, was in enumerate(order) if was in self.free}
        self.sources = [self.sources[i // self.beams] for i in order[:: self.beams]]
        if self._graphs is not None:
            self._set_sources()

    def leave(self, slot: int) -> None:
        """Free a slot: it is computed and ignored until another prompt is read into it."""
        self.free.add(slot)
        self.cache.cut(slot)

    def clear(self) -> None:
        """Free all slots: an earlier call may have been interrupted."""
        for slot in range(self.slots):
            self.leave(slot)

    def wipe(self, slot: int) -> None:
        """Zero what a slot holds: NaN there would spread to the next text, since 0 · NaN is NaN."""
        cache = self.cache
        for layer in (*cache.keys, *cache.values):
            layer[slot] = 0
        for layer in (*cache.memory_keys, *cache.memory_values):
            layer[slot // self.beams] = 0

    def check_fits(self, task: Task, tokens: int, source: int, beams: int) -> None:
        """Raise InputError if texts of this many tokens do not fit, or the model has changed."""
        if task is not self.task:
            raise InputError("engine: it belongs to another model: create one with model.engine(…)")
        if beams != self.beams:
            raise InputError(
                f"engine: it is for num_beams = {self.beams}, and num_beams is {beams}: create one "
                f"with model.engine(…, num_beams={beams})"
            )
        if self._weights != _weights_now(task, self._constant):
            raise InputError(
                "engine: the model's weights have changed or moved in memory: create the engine "
                "again"
            )
        room = self.cache.memory_capacity
        if tokens > self.capacity or source > room:
            raise InputError(
                f"engine: it has room for {self.capacity} tokens and sources of {room}, and "
                f"{tokens} and {source} are needed: create a larger one, or lower max_new_tokens"
            )

    def _set_sources(self) -> None:
        """Give the cache the lengths of its sources, at the address that CUDA graphs read."""
        least = min(1, self.cache.memory_capacity)  # a softmax over nothing is NaN
        sources = Sequences.of([max(least, length) for length in self.sources], device=self.device)
        if self._graphs is None:
            self.cache.memory = sources
            return
        if self.cache.memory is None or self.cache.memory.count != sources.count:
            self.cache.memory = replace(sources, lengths=(), longest=self.cache.memory_capacity)
        self.cache.memory.offsets.copy_(sources.offsets)


def _weights_now(task: Task, constant: bool) -> list[tuple[int, int]]:
    """The addresses of the weights: a CUDA graph reads them there, even after they moved.

    With `constant`, also their versions: compiled steps keep the weights as they were.
    """
    weights = (*task.parameters(), *task.buffers())
    return [(each.data_ptr(), each._version if constant else 0) for each in weights]
