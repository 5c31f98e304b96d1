"""The beam searches of one model: sentences join and leave them between two steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from glassformer.generate.beam import BeamBatch
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation
from glassformer.generate.settings import Settings
from glassformer.loaded import Model
from glassformer.serve.queueing import ANY
from glassformer.serve.work import Unit, generation_of


class BeamSearches:
    """A batch of searches with the same settings.

    Args:
        slots: texts at once
        context: the most tokens of a text, and of its source
    """

    def __init__(self, model: Model, slots: int, context: int) -> None:
        self.model, self.slots, self.context = model, slots, context
        self.batch: BeamBatch | None = None
        self.running: dict[int, Unit] = {}  # by the id of the request in the batch

    @property
    def group(self) -> object:
        """That of the units that may join."""
        return ANY if self.batch is None else self.batch.settings

    @property
    def size(self) -> float:
        return sum(unit.size for unit in self.running.values())

    def join(self, units: Sequence[Unit]) -> None:
        """Read the prompts of texts, all of the group."""
        need = len(self.running) + len(units)
        size = min(self.slots, 1 << (need - 1).bit_length())
        settings = generation_of(units[0]).job.settings
        batch = self._new_batch(settings, size) if self.batch is None else self.batch
        if batch.free < len(units):
            batch.resize(size)
        requests = [unit.request for unit in units if unit.request is not None]
        batch.join(requests)
        self.batch = batch
        self.running |= {id(unit.request): unit for unit in units}

    def _new_batch(self, settings: Settings, size: int) -> BeamBatch:
        source = self.context if self.model.config.family == "seq2seq" else 0
        engine = Engine(
            self.model.task, slots=size * settings.num_beams, capacity=self.context,
            memory_capacity=source, beams=settings.num_beams,
        )  # fmt: skip
        return BeamBatch(engine, settings, self.model.tokenizer)

    def advance(self) -> list[tuple[Unit, list[Generation]]]:
        """One step; returns the texts that are finished, the best first."""
        if self.batch is None:
            return []
        done = self.batch.advance()
        finished = [(self.running.pop(id(request)), texts) for request, texts in done]
        self._shrink()
        return finished

    def leave(self, units: Collection[Unit]) -> None:
        """Drop texts that nobody waits for."""
        if units and self.batch is not None:
            self.batch.leave([unit.request for unit in units if unit.request is not None])
            for unit in units:
                del self.running[id(unit.request)]
            self._shrink()

    def alone(self, unit: Unit) -> list[Generation]:
        """The texts of one unit, in a batch of its own."""
        single = BeamSearches(self.model, 1, self.context)
        single.join([unit])
        while True:
            for _, texts in single.advance():
                return texts

    def clear(self) -> list[Unit]:
        """Forget all texts, and return them."""
        units = list(self.running.values())
        self.running, self.batch = {}, None
        return units

    def _shrink(self) -> None:
        """The batch follows the number of texts, in powers of two."""
        if not self.running:
            self.batch = None
        elif self.batch is not None and self.batch.free >= 3 * self.batch.active:
            self.batch.resize(1 << (self.batch.active - 1).bit_length())
