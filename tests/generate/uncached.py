"""An engine that remembers nothing: it reads every text anew for each token."""

import torch


class Uncached:
    def __init__(self, task, *, slots, capacity, memory_capacity=0, beams=1, visitor=None):
        self.task, self.beams, self.capacity = task, beams, capacity
        self.device = task.device
        self.texts = [[0]] * slots
        self.sources = [None] * slots
        self.free, self.shrinks = set(range(slots)), True

    @property
    def slots(self):
        return len(self.texts)

    def read(self, prompts, slots=None, *, sources=None):
        slots = [i * self.beams for i in range(len(prompts))] if slots is None else slots
        for i, slot in enumerate(slots):
            for each in range(slot, slot + self.beams):
                self.texts[each] = list(prompts[i])
                self.free.discard(each)
                self.sources[each] = None if sources is None else list(sources[i])
        return self._logits(slots)

    def step(self, tokens):
        for slot, token in enumerate(tokens.tolist()):
            self.texts[slot] = [*self.texts[slot], token][-self.capacity :]
        return self._logits(range(self.slots))

    def select(self, index):
        self.texts = [self.texts[i] for i in index.tolist()]
        self.free = {i for i, was in enumerate(index.tolist()) if was in self.free}
        self.sources = [self.sources[i] for i in index.tolist()]

    def leave(self, slot):
        self.texts[slot] = [0]
        self.free.add(slot)

    def clear(self):
        for slot in range(self.slots):
            self.leave(slot)

    def _logits(self, slots):
        texts = [self.texts[i] for i in slots]
        sources = [self.sources[i] or [1] for i in slots]
        if self.task.spec.kind == "causal_lm":
            found = self.task.logits(texts)
        else:
            found = self.task.logits(sources, targets=texts)
        return torch.stack([each[-1] for each in found]).float()
