"""A preset against the config.json that its authors published."""

from typing import Any

from glassformer.checkpoint import ARCHITECTURES
from glassformer.presets import PRESETS


def check_published(name: str, config: dict[str, Any]) -> None:
    """Only attention's dropout is ours: the fast kernel has none."""
    preset = PRESETS[name]
    model, task = ARCHITECTURES[config["model_type"]].read(config, name)
    rates = model.dropout.model_copy(update={"attention": 0.0})
    assert model.model_copy(update={"dropout": rates}) == preset.model
    assert task == preset.task
