"""Fine-tuning without a recipe: one that is usually right, for a model and a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.checkpoint import read_configs
from glassformer.data.readers.files import find_files
from glassformer.errors import ConfigError
from glassformer.recipe.paths import model_path
from glassformer.recipe.schema import LABELLED, Recipe, recipe_from

# The longest text and the tokens of a row: some 16 to 32 of what is usual for the kind.
SIZES = {
    "classification": (128, 1024),
    "token_classification": (128, 1024),
    "question_answering": (384, 4096),
    "sentence_embedding": (128, 2048),
}
LETTERS, FEW = 5, 100  # bytes of a token, roughly; rows that are few for an epoch
RATES = ((512, 5e-5), (768, 3e-5))  # up to this width; wider models learn more slowly


def short_recipe(kind: str, model: str, data: Path, changes: Mapping[str, str]) -> Recipe:
    """A few epochs with a short warm-up and a linear end; a tenth of the texts is held out.

    Of little data more epochs in shorter rows: a model has to move some hundred times.
    """
    if kind not in LABELLED:
        raise ConfigError(f"finetune {kind} --model: write one of {', '.join(LABELLED)}")
    config, _ = read_configs(model)
    length, tokens = SIZES[kind]
    length = min(length, config.max_length)
    read = sum(file.stat().st_size for file in find_files(data)) / LETTERS
    if read < FEW * tokens:
        tokens = tokens // 4
    epochs = float(min(10, max(3, round(2 * FEW * tokens / max(1.0, read)))))
    rate = next((rate for width, rate in RATES if config.width <= width), 2e-5)
    fields: dict[str, Any] = {
        "name": f"{kind}-{data.name.partition('.')[0]}",
        "init_from": model_path(model),
        "data": {"train": data.name, "valid_fraction": 0.1},
        "objective": {"kind": kind, "length": length},
        "train": {
            "epochs": epochs, "micro_batch_tokens": max(tokens, length), "learning_rate": rate,
            "warmup": 0.1, "schedule": "linear", "min_lr_ratio": 0.0, "weight_decay": 0.01,
            "betas": [0.9, 0.999],
        },
    }  # fmt: skip
    return recipe_from(fields, changes, f"finetune {kind}")
