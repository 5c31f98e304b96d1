"""The linear maps of a model by the names of a checkpoint, and which of them an adapter changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from glassformer.adapters.lora import AdaptedLinear, RowRange
from glassformer.checkpoint import Origin
from glassformer.checkpoint.load import new_origin, usual_names
from glassformer.checkpoint.rows import Link
from glassformer.errors import ConfigError, shown
from glassformer.tasks import Task

EVERY = "all-linear"  # all linear maps of the blocks


@dataclass(frozen=True)
class CheckpointMap:
    """A linear map of a checkpoint: one of ours, or several that it stores as one."""

    name: str  # of the module in transformers
    link: Link  # of its weight

    @property
    def modules(self) -> list[str]:
        """Our names."""
        return [name.removesuffix(".weight") for name in self.link.ours]

    def linears(self, task: Task) -> list[nn.Linear | AdaptedLinear]:
        return [task.get_submodule(name) for name in self.modules]  # type: ignore[misc]

    def rows(self, task: Task) -> list[RowRange]:
        """The rows of each of ours."""
        places, start = [], 0
        for linear in self.linears(task):
            stop = start + linear.weight.shape[0] // self.link.heads
            places.append(RowRange(start, stop, self.link.heads))
            start = stop
        return places

    def shape(self, task: Task) -> tuple[int, int]:
        """The sizes of the output and of the input."""
        linears = self.linears(task)
        return sum(each.weight.shape[0] for each in linears), linears[0].weight.shape[1]

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """What belongs to rows of ours, in the order of the checkpoint's rows."""
        split = [part.unflatten(0, (self.link.heads, -1)) for part in parts]
        return torch.cat(split, 1).flatten(0, 1)


def names_of(task: Task, origin: Origin | None) -> dict[str, Link]:
    """The names of the task's tensors in transformers."""
    origin = origin or new_origin(task)
    foreign = origin.architecture.write(task.backbone.config, task.spec, origin.config)
    return usual_names(task, origin.architecture, foreign)


def linear_maps(task: Task, names: dict[str, Link]) -> list[CheckpointMap]:
    """All linear maps; the output layer of a language model is a table and none of them."""
    maps = [
        CheckpointMap(name.removesuffix(".weight"), link)
        for name, link in names.items()
        if all(each.endswith(".weight") for each in link.ours)
    ]
    kinds = (nn.Linear, AdaptedLinear)
    return [each for each in maps if all(isinstance(m, kinds) for m in each.linears(task))]


def targeted(maps: Sequence[CheckpointMap], targets: Sequence[str]) -> list[CheckpointMap]:
    """The maps that the patterns name; ConfigError if one names none, or a part of one.

    A pattern is a name of ours or of transformers, or its last parts: attention.query, q_proj,
    blocks.0.mlp.*, or all-linear.
    """
    for pattern in targets:
        if not any(_matches(each, module, pattern) for each in maps for module in each.modules):
            known = sorted({".".join(m.rsplit(".", 2)[1:]) for each in maps for m in each.modules})
            raise ConfigError(
                f"targets = {shown(pattern)}: no linear map has such a name: write {EVERY}, or "
                f"some of {', '.join(known)}"
            )
    chosen = []
    for each in maps:
        hits = [any(_matches(each, module, p) for p in targets) for module in each.modules]
        if any(hits) and not all(hits):
            raise ConfigError(
                f"targets = {shown(list(targets))}: {', '.join(each.modules)} are one map in this "
                f"model's checkpoints, {each.name}: name all of them"
            )
        chosen += [each] if all(hits) else []
    return chosen


def _matches(each: CheckpointMap, module: str, pattern: str) -> bool:
    if pattern == EVERY:
        return ".blocks." in module
    names = (module, each.name)
    return any(fnmatchcase(n, pattern) or fnmatchcase(n, f"*.{pattern}") for n in names)
