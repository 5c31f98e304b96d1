"""Row i of a run: always the same one, and built without the rows before it."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from glassformer.data.dataset import BatchShape, Dataset
from glassformer.data.mixture import mixed
from glassformer.data.packing import Plan, key_of, make_plan, store_plan, stored_plan
from glassformer.errors import InputError, counted
from glassformer.model import Batch

AHEAD = 4  # rows that each worker may have ready


@dataclass(frozen=True)
class PackedRow:
    batch: Batch
    tokens: int  # without padding


class PackedRows:
    """All rows of epoch 0, then all of epoch 1, and so on without end."""

    def __init__(
        self, dataset: Dataset, *, budget: int, folder: Path | None = None, fixed: bool = False,
        shares: tuple[float, ...] = (),
    ) -> None:  # fmt: skip
        self.dataset, self.budget, self.folder = dataset, budget, folder
        self.shares = shares  # of each source in an epoch; all samples once if not given
        costs = dataset.costs(dataset.samples(0))
        if len(costs) == 0:
            raise InputError(f"{dataset.store.folder}: no text is left{_reasons(dataset)}")
        longest = costs.reshape(len(costs), -1).max(1)
        # Room for a third more texts than usual; more than that start a new row.
        self.most = -(-int(4 * budget / longest.mean() / 3 + 16) // 16) * 16
        self.shape = self._shape() if fixed else None
        self._pins = torch.cuda.is_available()
        self._ends: list[int] = []  # where each known epoch ends, in rows
        self._plans: dict[int, Plan] = {}
        self._next_plans: dict[int, Future[Plan]] = {}  # made while this epoch is read

    def _shape(self) -> BatchShape:
        positions = self.dataset.label_positions(self.budget, self.most)
        texts = self.most * self.dataset.texts_per_sample
        return BatchShape(self.budget, texts, self.dataset.length, positions)

    def plan(self, epoch: int) -> Plan:
        """The packing plan of an epoch; only this one and the one before are kept in memory."""
        if epoch not in self._plans:
            self._plans = {e: plan for e, plan in self._plans.items() if e == epoch - 1}
            future = self._next_plans.pop(epoch, None)
            self._plans[epoch] = self._load_or_make(epoch) if future is None else future.result()
        return self._plans[epoch]

    def _load_or_make(self, epoch: int) -> Plan:
        dataset = self.dataset
        more = (self.shares, dataset.store.meta.source_documents) if self.shares else ()
        key = key_of(dataset.settings, dataset.store.layout, self.budget, self.most, epoch, *more)
        path = None if self.folder is None else self.folder / f"epoch-{epoch:05d}.safetensors"
        plan = None if path is None else stored_plan(path, key)
        if plan is None:
            samples = dataset.samples(epoch)
            if self.shares:
                samples = mixed(dataset, samples, self.shares, epoch)
            plan = make_plan(
                samples, dataset.costs(samples), budget=self.budget, most=self.most,
                seed=dataset.seed, epoch=epoch,
            )  # fmt: skip
            if path is not None:
                store_plan(plan, path, key)
        return plan

    def locate(self, index: int) -> tuple[int, int]:
        """The epoch that row `index` belongs to, and its number in that epoch."""
        while not self._ends or index >= self._ends[-1]:
            before = self._ends[-1] if self._ends else 0
            self._ends.append(before + len(self.plan(len(self._ends))))
        epoch = bisect_right(self._ends, index)
        return epoch, index - (self._ends[epoch - 1] if epoch else 0)

    def __getitem__(self, index: int) -> PackedRow:
        epoch, number = self.locate(index)
        return self._row(self.plan(epoch), epoch, number)

    def _row(self, plan: Plan, epoch: int, number: int) -> PackedRow:
        samples = plan.row(number)
        batch = self.dataset.batch(samples, epoch, self.shape)
        if self._pins:
            batch = batch.pin()
        return PackedRow(batch, int(self.dataset.costs(samples).sum()))

    def stream(self, indices: Iterable[int], *, workers: int = 0) -> Iterator[PackedRow]:
        """Yield these rows in this order, prefetched by `workers` threads."""
        if workers == 0:
            yield from map(self.__getitem__, indices)
            return
        pending: deque[Future[PackedRow]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for index in indices:
                    epoch, number = self.locate(index)  # plans are made here, in their order
                    pending.append(pool.submit(self._row, self.plan(epoch), epoch, number))
                    if epoch + 1 not in self._next_plans and 2 * number > len(self.plan(epoch)):
                        self._next_plans[epoch + 1] = pool.submit(self._load_or_make, epoch + 1)
                    if len(pending) > AHEAD * workers:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()
                for plan in self._next_plans.values():
                    plan.cancel()
                self._next_plans.clear()


def _reasons(dataset: Dataset) -> str:
    """The end of "no text is left": why texts were skipped, and what to change."""
    skipped = [each for each in dataset.skipped() if each.count]
    reasons = "".join(f": {counted(each.count, each.reason)}" for each in skipped)
    longer = any(each.too_long for each in skipped)
    return f"{reasons}: " + ("raise objective.length" if longer else "add other texts")
