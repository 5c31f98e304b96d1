"""An adapter: LoRA for some linear maps of a model, and the head that was trained with it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import nn

from glassformer.adapters.lora import AdaptedLinear, Lora, swapped
from glassformer.adapters.maps import CheckpointMap, linear_maps, names_of, targeted
from glassformer.checkpoint import Origin
from glassformer.checkpoint.keys import Json
from glassformer.config import TaskConfig
from glassformer.fields import AdapterConfig
from glassformer.tasks import Task, outline


class Adapter(nn.Module):
    """The weights of an adapter, apart from the model that they were trained on.

    Args:
        maps: the linear maps that it changes
        loras: what is added to each
        spec: the task that it was trained on
        head: the head's modules by their names in the task; empty if it is the model's own
        saved: the names of the head's weights that its file has
        config: its adapter_config.json
    """

    def __init__(
        self, maps: Sequence[CheckpointMap], loras: Sequence[Lora], spec: TaskConfig, *,
        config: Json, head: Mapping[str, nn.Module] | None = None, saved: Collection[str] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self.maps, self.loras = tuple(maps), nn.ModuleList(loras)
        self.head = nn.ModuleDict(dict(head or {}))
        self.spec, self.saved, self.config = spec, frozenset(saved), config

    def headed(self, task: Task) -> Task:
        """The task with the adapter's head; its weights are shared."""
        if not self.head:
            return task
        new = outline(task.backbone.config, self.spec)
        new.backbone = task.backbone
        for name, module in self.head.items():
            setattr(new, name, module)
        return new.train(task.training)

    def apply_to(self, task: Task) -> Task:
        """The task with this adapter. Its weights are shared, and it stays as it is."""
        base = self.headed(task)
        changes: dict[nn.Module, nn.Module] = {}
        for each, lora in zip(self.maps, self.loras, strict=True):
            for linear, rows in zip(each.linears(base), each.rows(base), strict=True):
                changes[linear] = AdaptedLinear(linear, lora, rows)  # type: ignore[arg-type]
        adapted = swapped(base, changes)
        assert isinstance(adapted, Task)  # noqa: S101
        return adapted.train(task.training)


def new_adapter(task: Task, origin: Origin | None, config: AdapterConfig) -> Adapter:
    """An adapter that changes nothing yet: B is 0."""
    maps = linear_maps(task, names_of(task, origin))
    maps = [each for each in maps if each.modules[0].startswith("backbone.")]
    maps = targeted(maps, config.targets)
    loras = []
    for each in maps:
        out, size = each.shape(task)
        weight = each.linears(task)[0].weight
        a = torch.empty(config.rank, size)
        nn.init.kaiming_uniform_(a, a=math.sqrt(5))  # as PEFT does
        lengths = [w.weight.detach().float().norm(dim=1).cpu() for w in each.linears(task)]
        lora = Lora(
            a, torch.zeros(out, config.rank), config.alpha / config.rank,
            magnitude=each.joined(lengths) if config.dora else None, dropout=config.dropout,
        )  # fmt: skip
        loras.append(lora.to(weight.device, weight.dtype))
    return Adapter(maps, loras, task.spec, config=peft_fields(config))


def peft_fields(config: AdapterConfig) -> Json:
    """The numbers of an adapter as PEFT's config names them."""
    whole = config.alpha == int(config.alpha)
    return {
        "r": config.rank,
        "lora_alpha": int(config.alpha) if whole else config.alpha,
        "lora_dropout": config.dropout,
        "use_dora": config.dora,
    }


def head_names(task: Task) -> set[str]:
    """The weights of a head for labels: they are trained together with an adapter."""
    if task.spec.traits.predicts not in ("label", "token_labels", "span"):
        return set()
    return {name for name, _ in task.named_parameters() if not name.startswith("backbone.")}


def fixed_names(task: Task) -> set[str]:
    """The weights that an adapter leaves as they are; none if the task has no adapter."""
    loras = {p for m in task.modules() if isinstance(m, Lora) for p in m.parameters()}
    heads = head_names(task)
    names = {n for n, p in task.named_parameters() if p not in loras and n not in heads}
    return names if loras else set()


def merged(task: Task) -> Task:
    """The task with the products of its adapter added to its weights: plain linear maps."""
    changes: dict[nn.Module, nn.Module] = {
        module: module.merged() for module in task.modules() if isinstance(module, AdaptedLinear)
    }
    plain = swapped(task, changes)
    assert isinstance(plain, Task)  # noqa: S101
    return plain
