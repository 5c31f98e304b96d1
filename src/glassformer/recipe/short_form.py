"""Fine-tuning without a recipe: sensible settings for a model and a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from glassformer.checkpoint import read_configs
from glassformer.data.readers.files import find_files
from glassformer.data.remote import fetch
from glassformer.errors import ConfigError
from glassformer.objectives import OBJECTIVES
from glassformer.recipe.paths import model_path
from glassformer.recipe.schema import Recipe, recipe_from

BYTES, FEW = 5, 100  # bytes of a token, roughly; micro-batches that are few for an epoch
RATES = ((512, 5e-5), (768, 3e-5))  # up to this width; wider models need lower rates


def short_recipe(
    kind: str, model: str, data: Path | str, changes: Mapping[str, str],
    valid: Path | str | None = None,
) -> Recipe:  # fmt: skip
    """A few epochs with a short warm-up and linear decay; without `valid`, a tenth of the texts is
    held out. The data is at full paths or addresses.

    Little data gets more epochs in smaller micro-batches: training needs some hundred steps.
    """
    forms = {name: each.short_form for name, each in OBJECTIVES.items() if each.short_form}
    form = forms.get(kind)
    if form is None:
        recipe = f", or a recipe: `glassformer recipe new {kind}`" if kind in OBJECTIVES else ""
        raise ConfigError(f"--objective {kind}: write one of {', '.join(forms)}{recipe}")
    config, _ = read_configs(model)
    length, tokens = min(form.length, config.max_length), form.micro_batch_tokens
    local = data if isinstance(data, Path) else fetch(data)
    read = sum(file.stat().st_size for file in find_files(local)) / BYTES
    if read < FEW * tokens:
        tokens = tokens // 4
    epochs = float(min(10, max(3, round(2 * FEW * tokens / max(1.0, read)))))
    rate = next((rate for width, rate in RATES if config.width <= width), 2e-5)
    fields: dict[str, Any] = {
        "name": f"{kind}-{_name(data)}",
        "init_from": model_path(model),
        "data": {"train": _beside(data, data), "valid_fraction": 0.1},
        "objective": {"kind": kind, "length": length},
        "train": {
            "epochs": epochs, "micro_batch_tokens": max(tokens, length), "learning_rate": rate,
            "warmup": 0.1,
            "schedule": "linear", "min_lr_ratio": 0.0, "weight_decay": 0.01, "betas": [0.9, 0.999],
        },
    }  # fmt: skip
    if valid is not None:
        fields["data"] |= {"valid": _beside(valid, data)}
    return recipe_from(fields, changes, f"finetune {kind}")


def _name(data: Path | str) -> str:
    """That of the file, without its ending."""
    path = data if isinstance(data, Path) else PurePosixPath(urlsplit(data).path)
    return path.name.partition(".")[0] or "data"


def _beside(path: Path | str, data: Path | str) -> str:
    """The name of a file beside the data; else the full path, or the address."""
    if isinstance(path, Path) and isinstance(data, Path) and path.parent == data.parent:
        return path.name
    return str(path)
