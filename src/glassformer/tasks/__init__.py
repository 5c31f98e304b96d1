"""Backbone and head: M + K files, never M × K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from glassformer.config import ModelConfig, TaskConfig, TaskKind
from glassformer.errors import ConfigError, shown
from glassformer.model.families import FAMILIES
from glassformer.model.init import initialise, materialise
from glassformer.tasks.base import Ids, LossSum, Output, Task, cross_entropy
from glassformer.tasks.embed import SentenceEmbedding
from glassformer.tasks.heads import POOLING, pool
from glassformer.tasks.label import Classification, Features, QuestionAnswering, TokenClassification
from glassformer.tasks.language import CausalLM, MaskedLM
from glassformer.tasks.pooling import Important, ImportantWords

TASKS: dict[TaskKind, type[Task]] = {
    "features": Features,
    "masked_lm": MaskedLM,
    "masked_lm_nsp": MaskedLM,
    "next_sentence": Classification,
    "causal_lm": CausalLM,
    "translation": CausalLM,
    "classification": Classification,
    "token_classification": TokenClassification,
    "question_answering": QuestionAnswering,
}


class SkipInit(TorchFunctionMode):
    """Skip torch.nn.init: weights are initialised or read later.

    `torch.nn.utils.skip_init` would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self, call: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        initialises = getattr(call, "__module__", None) == "torch.nn.init"
        return None if initialises else call(*args, **(kwargs or {}))


def outline(config: ModelConfig, task: TaskConfig) -> Task:
    """The task's modules and shapes, its parameters on the meta device: they have no memory yet."""
    family = task.traits.family
    if family not in (None, config.family):
        raise ConfigError(
            f"kind = {task.kind!r} needs family = {family!r}, and this one is {config.family!r}"
        )
    if task.traits.predicts in ("label", "token_labels") and not task.labels:
        raise ConfigError(
            f"labels is empty: kind = {task.kind!r} needs at least one: write their names"
        )
    with SkipInit(), torch.device("meta"):
        return TASKS[task.kind](FAMILIES[config.family](config), task)


def build_task(
    config: ModelConfig,
    task: TaskConfig,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Task:
    """A new task with random weights, on `device` in `dtype` (float32 on the CPU by default).

    Examples:
        >>> preset = gf.PRESETS["bert-tiny"]
        >>> model = gf.Model(gf.build_task(preset.model, gf.TaskConfig(kind="masked_lm")))
    """
    for name, value, kind in (("config", config, ModelConfig), ("task", task, TaskConfig)):
        if not isinstance(value, kind):
            raise ConfigError(f"build_task: {name} = {shown(value)}: give a gf.{kind.__name__}")
    model = outline(config, task)
    materialise(model, device=device, dtype=dtype)
    initialise(model, config)
    return model


__all__ = [
    "POOLING",
    "TASKS",
    "CausalLM",
    "Classification",
    "Features",
    "Ids",
    "Important",
    "ImportantWords",
    "LossSum",
    "MaskedLM",
    "Output",
    "QuestionAnswering",
    "SentenceEmbedding",
    "Task",
    "TokenClassification",
    "build_task",
    "cross_entropy",
    "outline",
    "pool",
]  # fmt: skip
