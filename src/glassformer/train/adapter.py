"""A recipe's [adapter]: what is trained beside the initial model, and how it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from glassformer.adapters import head_names, new_adapter, peft_fields, write_adapter
from glassformer.checkpoint import Origin, save_task
from glassformer.checkpoint.folder import open_config
from glassformer.checkpoint.load import new_origin
from glassformer.errors import ConfigError
from glassformer.loaded import load
from glassformer.pretrained import named
from glassformer.recipe.schema import Recipe
from glassformer.tasks import Task

MODEL, ADAPTER = "model", "adapter"  # folders of a run


def result_name(recipe: Recipe) -> str:
    """The folder of the run's result: of the adapter, unless it is merged."""
    return MODEL if recipe.adapter is None or recipe.adapter.merge else ADAPTER


def with_new_adapter(recipe: Recipe, task: Task, source: str) -> Task:
    """The task with a new adapter, which State trains."""
    assert recipe.adapter is not None  # noqa: S101
    try:
        return new_adapter(task, layout(recipe, task), recipe.adapter).apply_to(task)
    except ConfigError as error:
        raise ConfigError(f"{source}: adapter.{error}") from None


def write_result(
    task: Task, recipe: Recipe, folder: Path, trained: str, files: Mapping[str, bytes],
    notes: Mapping[str, str],
) -> None:  # fmt: skip
    """Write the adapter of a trained task, and the merged model if the recipe says so.

    It is merged with the weights of the initial model's file: those in `task` may be rounded.

    Args:
        trained: the section of the card about the training
        files: those of a merged model
        notes: further keys of its config.json
    """
    settings, base = recipe.adapter, str(recipe.init_from)
    assert settings is not None  # noqa: S101
    write_adapter(
        folder / ADAPTER, task, layout(recipe, task), peft_fields(settings), head_names(task),
        base, {"README.md": (_card(recipe, folder / ADAPTER) + trained).encode()},
    )  # fmt: skip
    if settings.merge:
        model = load(base, adapter=folder / ADAPTER).merge_adapter()
        save_task(model.task, folder / MODEL, model.origin, files, notes)


def layout(recipe: Recipe, task: Task) -> Origin:
    """The names of the task's weights in the initial model's architecture."""
    kind = open_config(named(str(recipe.init_from)))[0].get("model_type")
    return new_origin(task, None if kind is None else str(kind))


def _card(recipe: Recipe, folder: Path) -> str:
    """The README.md of an adapter folder, up to its training."""
    base, adapter = (
        json.dumps(str(each), ensure_ascii=False) for each in (recipe.init_from, folder)
    )
    name = Path(str(recipe.init_from)).name
    return f"""---
library_name: peft
base_model: {json.dumps(name, ensure_ascii=False)}
---

# {recipe.name}

A LoRA adapter for the model {name}. The folder is in PEFT's layout: `peft` opens it, too.

```python
import glassformer as gf

model = gf.load({base}, adapter={adapter})
```
"""
