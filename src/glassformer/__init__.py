"""glassformer: transformers you can see through.

import glassformer as gf
model = gf.load("folder")
trace = gf.record(model, "The cat sat on the mat")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.bulk import BulkSummary, map_files
    from glassformer.config import ModelConfig, TaskConfig
    from glassformer.errors import GlassformerError
    from glassformer.glass import Trace, ablate
    from glassformer.loaded import Model, load, record
    from glassformer.model import Batch, Cache, Sequences, build
    from glassformer.presets import PRESETS
    from glassformer.recipe.schema import Recipe
    from glassformer.studio.notebook import View, view
    from glassformer.tasks import ImportantWords, build_task
    from glassformer.text import Tokenizer
    from glassformer.train.finetune import finetune
    from glassformer.train.fit import Training, fit
    from glassformer.train.loop import Step
    from glassformer.train.trainer import Evaluated, RolledBack, Saved

# The module of each name; nothing is imported before it is used, above all not torch.
_MODULES = {
    "BulkSummary": "bulk",
    "map_files": "bulk",
    "ModelConfig": "config",
    "TaskConfig": "config",
    "GlassformerError": "errors",
    "Trace": "glass",
    "ablate": "glass",
    "Model": "loaded",
    "load": "loaded",
    "record": "loaded",
    "Batch": "model",
    "Cache": "model",
    "ImportantWords": "tasks",
    "Sequences": "model",
    "build": "model",
    "PRESETS": "presets",
    "View": "studio.notebook",
    "view": "studio.notebook",
    "build_task": "tasks",
    "Tokenizer": "text",
    "Recipe": "recipe.schema",
    "Training": "train.fit",
    "fit": "train.fit",
    "finetune": "train.finetune",
    "Step": "train.loop",
    "Evaluated": "train.trainer",
    "RolledBack": "train.trainer",
    "Saved": "train.trainer",
}

__all__ = [
    "PRESETS", "Batch", "BulkSummary", "Cache", "Evaluated", "GlassformerError", "ImportantWords",
    "Model", "ModelConfig", "Recipe", "RolledBack", "Saved", "Sequences", "Step", "TaskConfig",
    "Tokenizer", "Trace", "Training", "View", "__version__", "ablate", "build", "build_task",
    "finetune", "fit", "load", "map_files", "record", "view",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"glassformer.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
