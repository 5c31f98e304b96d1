"""Several adapters in one flat batch, one for each text.

    text         the cat sat │ hello │ it was so
    adapter      a           │ b     │ b
    runs         0 … 3: a              3 … 7: b

The linear map itself is one product for the whole row; each run of texts adds its own B A x.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.adapters.adapter import Adapter
from glassformer.adapters.lora import AdaptedLinear, swapped
from glassformer.errors import InputError
from glassformer.model import Batch
from glassformer.tasks import Task

Run = tuple[int | None, int, int]  # an adapter's number, its first row, and the row after its last


class Routing:
    """Which rows belong to which adapter, in the batch that is being computed.

    It belongs to one call: the texts' adapters are known before, and `batches` moves it on.
    """

    def __init__(self, numbers: Sequence[int | None]) -> None:
        self.numbers = numbers
        self.done = 0  # texts of earlier batches
        self.runs: dict[tuple[bool, int], list[Run]] = {}  # by (source, rows)

    def begin(self, batch: Batch) -> None:
        if batch.documents is not None:
            raise InputError("adapter: a document of several texts takes one adapter: write a name")
        count = batch.sequences.count
        numbers = self.numbers[self.done : self.done + count]
        self.done += count
        self.runs = {}
        for source, side in ((False, batch), (True, batch.source)):
            for lengths in () if side is None else ((1,) * count, side.sequences.lengths):
                self.runs[source, sum(lengths)] = list(_runs(numbers, lengths))

    def of(self, x: Tensor, *, source: bool) -> list[Run]:
        """The runs of a tensor with a row for each token, or one for each text."""
        try:
            return self.runs[source, x.shape[0]]
        except KeyError:
            raise InputError(
                "adapter: this head reads some of the tokens only: choose one adapter for all texts"
            ) from None


class RoutedLinear(nn.Module):
    """A linear map with the adapters of each run of texts."""

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, linear: nn.Module, adapted: dict[int, AdaptedLinear], routing: Routing, *,
        source: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self._parameters = linear._parameters
        self.adapted, self.routing, self.source = adapted, routing, source

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        for number, start, stop in self.routing.of(x, source=self.source):
            adapted = None if number is None else self.adapted.get(number)
            if adapted is None:
                continue
            lora, rows = adapted.lora, x[start:stop]
            if lora.magnitude is not None:
                y[start:stop] = adapted(rows)
            else:
                b = adapted.rows.of(lora.b)
                y[start:stop].addmm_(F.linear(rows, lora.a), b.T, alpha=lora.scale)
        return y


class RoutedHead(nn.Module):
    """A part of the head that each adapter has for itself."""

    def __init__(self, heads: list[nn.Module], own: nn.Module | None, routing: Routing) -> None:
        super().__init__()
        self.heads, self.own, self.routing = heads, own, routing

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        parts = []
        for number, start, stop in self.routing.of(x, source=False):
            head = self.own if number is None else self.heads[number]
            assert head is not None  # noqa: S101 - `routed` has compared the tasks
            parts.append(head(x[start:stop], *others))
        return torch.cat(parts)


def routed(
    task: Task, adapters: Sequence[Adapter], numbers: Sequence[int | None], *, head: bool = True
) -> Task:
    """The task for texts that each have an adapter of their own, or none; its weights are shared.

    It is for one call, and for as many texts as there are numbers. Without `head` only its backbone
    may be used, so that the adapters may have different heads.
    """
    specs = [adapter.spec for adapter in adapters]
    specs += [task.spec] if None in numbers or not adapters else []
    if head and any(spec != specs[0] for spec in specs):
        raise InputError(
            "adapter: the texts of one call need adapters with the same head and labels: call once "
            "for each"
        )
    routing = Routing(numbers)
    tasks = [adapter.apply_to(task) for adapter in adapters]
    base = adapters[0].headed(task) if head and adapters else task
    changes: dict[nn.Module, nn.Module] = {}
    for name, module in base.named_modules():
        if not name or not (head or name.startswith("backbone.")):
            continue
        others = [each.get_submodule(name) for each in tasks]
        adapted = {i: m for i, m in enumerate(others) if isinstance(m, AdaptedLinear)}
        if adapted:
            source = task.backbone.config.family == "seq2seq" and _reads_source(name)
            changes[module] = RoutedLinear(module, adapted, routing, source=source)
    for name in {name for adapter in adapters if head for name in adapter.head}:
        own = dict(task.named_children()).get(name)
        changes[base.get_submodule(name)] = RoutedHead(
            [each.get_submodule(name) for each in tasks], own, routing
        )
    view = copy.copy(swapped(base, changes))  # a new object, even without a change
    assert isinstance(view, Task)  # noqa: S101
    return _moving(view, base, routing)


def _moving(view: Task, base: Task, routing: Routing) -> Task:
    """The task, whose batches tell the routing which texts they have."""

    def batches(ids: Any, **options: Any) -> Iterator[Batch]:
        if len(ids) != len(routing.numbers):
            raise InputError(
                f"adapter: {len(routing.numbers)} names for {len(ids)} texts: write one for each; "
                "texts that are read in several windows take one adapter for all"
            )
        for batch in base.batches(ids, **options):
            routing.begin(batch)
            yield batch

    view.batches = batches  # type: ignore[method-assign]
    return view


def _runs(numbers: Sequence[int | None], lengths: Sequence[int]) -> Iterator[Run]:
    """Neighbouring texts with the same adapter are one run."""
    ends = list(accumulate(lengths, initial=0))
    for number, texts in groupby(range(len(numbers)), key=lambda i: numbers[i]):
        places = list(texts)
        yield number, ends[places[0]], ends[places[-1] + 1]


def _reads_source(name: str) -> bool:
    """Whether a linear map of a seq2seq model has the tokens of the source as its rows."""
    return name.startswith("backbone.encoder.") or name.endswith((".cross.key", ".cross.value"))
