"""A recipe: everything that decides a run, in one TOML file. Reading it costs no torch."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from glassformer.config import DECODER_SIZES, ModelConfig, TokenIds
from glassformer.errors import ConfigError, shown, with_article
from glassformer.fields import (
    AdapterConfig,
    DataConfig,
    DataPath,
    DistributedConfig,
    ModelPath,
    ObjectiveConfig,
    TokenizerConfig,
    TrainConfig,
)  # fmt: skip
from glassformer.objectives import objective_of
from glassformer.presets import PRESETS
from glassformer.recipe.field_names import hint
from glassformer.recipe.paths import expanded, from_caller, from_recipe, map_paths
from glassformer.recipe.toml import read_fields
from glassformer.recipe.validation import check_agreement
from glassformer.strict import Named, read


class Recipe(Named):
    # Of the run: its folder is runs/NAME.
    name: str = Field(pattern=r"^\w[\w.-]{0,99}$")
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: Mapping[str, Any] = {}  # a preset and fields of ModelConfig that differ from it
    objective: ObjectiveConfig
    train: TrainConfig
    adapter: AdapterConfig | None = None  # train LoRA beside the initial model, which stays
    distributed: DistributedConfig = DistributedConfig()
    root: DataPath | None = None  # where the data lies, if not beside this file
    # The initial model; it brings tokenizer and network, and only its dropout can be changed.
    init_from: ModelPath | None = None
    random_init: bool = False  # of `init_from` take the network and the tokenizer, not the weights

    @model_validator(mode="after")
    def _check(self) -> Self:
        if RESERVED.fullmatch(self.name) or len(self.name.encode()) > MOST_NAME:
            raise ValueError(
                f"name = {self.name!r}: not every system allows such a folder: choose another name"
            )
        if len(self.data.languages) not in (0, 2):
            raise ValueError(
                f"data.languages = {list(self.data.languages)}: name two, as ['en', 'ru'], or none"
            )
        check_agreement(self)
        return self


MOST_NAME = 200  # bytes: file systems have 255, and a temporary name is longer
# No name of a folder on Windows.
RESERVED = re.compile(r".*\.|(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
SHORT = re.compile(r"[+-]?(\.\d+|\d+\.)(e[+-]?\d+)?", re.IGNORECASE)  # TOML wants 0.3 and 3.0
# Sizes that follow from others, unless they are written.
FOLLOWING = (
    "head_width", "value_width", "score_width", "key_heads", "embedding_width", "output_bias",
    *(f"decoder_{size}" for size in DECODER_SIZES),
)  # fmt: skip


def read_recipe(path: Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """The recipe of a file, or of a run's folder, with single fields replaced:
    {"train.steps": "100"}."""
    return recipe_from(recipe_fields(path), changes or {}, str(path))


def recipe_fields(path: Path) -> dict[str, Any]:
    """What the file says; the model to start from is relative to the file."""
    path = expanded(path)
    folder = path if path.is_dir() else path.parent
    fields: dict[str, Any] = map_paths(Recipe, read_fields(path), from_recipe(folder))
    return fields


def recipe_from(fields: dict[str, Any], changes: Mapping[str, str], source: str) -> Recipe:
    for name, text in changes.items():
        _put(fields, name, text)
    for name, other in (("steps", "epochs"), ("epochs", "steps")):
        if f"train.{name}" in changes and f"train.{other}" not in changes:
            fields["train"].pop(other, None)
    recipe = read(Recipe, _tuples(fields), source, hint=hint)
    if recipe.init_from is None:  # report a mistake in [model] before the data is prepared
        model_config(recipe, recipe.tokenizer.vocab_size, TokenIds(), source)
    return recipe


def model_config(recipe: Recipe, vocab_size: int, ids: TokenIds, source: str) -> ModelConfig:
    """What the recipe's [model] says, on the preset it names (or the objective's usual one)."""
    objective, fields = objective_of(recipe), dict(recipe.model)
    name = fields.pop("preset", objective.preset)
    if not isinstance(name, str) or name not in PRESETS:
        near = difflib.get_close_matches(str(name), PRESETS, 1)
        instead = f"did you mean {near[0]!r}?" if near else "`glassformer presets` lists all"
        raise ConfigError(f"{source}: model.preset = {shown(name)}: no such preset: {instead}")
    preset = PRESETS[name].model
    if preset.family != objective.family:
        raise ConfigError(
            f"{source}: model.preset = {name!r} is {with_article(preset.family)}, and "
            f"objective.kind = {objective.name!r} needs {with_article(objective.family)}"
        )
    known = preset.model_dump()
    known |= dict.fromkeys(n for n in FOLLOWING if known[n] == _following(n, known))
    known |= {"vocab_size": vocab_size, "ids": ids.model_dump()}
    known["max_length"] = recipe.objective.length
    config = read(ModelConfig, _merged(known, fields), f"{source}: model", hint=_model_hint)
    if config.family != objective.family:
        raise ConfigError(
            f"{source}: model.family = {config.family!r}: write {objective.family!r}, or leave it "
            "out"
        )
    if config.max_length < recipe.objective.length:
        raise ConfigError(
            f"{source}: objective.length = {recipe.objective.length}: the model reads at most "
            f"model.max_length = {config.max_length} tokens: lower it, or raise model.max_length"
        )
    return config


def with_dropout(recipe: Recipe, config: ModelConfig, source: str) -> ModelConfig:
    """The config of a model to go on from, with the recipe's dropout: no weight depends on it."""
    fields = _merged(config.model_dump(), recipe.model)
    return read(ModelConfig, fields, f"{source}: model", hint=_model_hint)


def _model_hint(name: str) -> str:
    return hint(f"model.{name}")


def _merged(known: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Of a group, such as dropout, only what is written changes."""
    for name, value in fields.items():
        group = known.get(name)
        if isinstance(group, dict) and isinstance(value, Mapping):
            known[name] = {**group, **value}
        else:
            known[name] = value
    return known


def _following(size: str, known: Mapping[str, Any]) -> Any:
    return {
        "head_width": known["width"] // known["heads"],
        "value_width": known["head_width"],
        "score_width": known["head_width"] * (3 if known["relative"] == "disentangled" else 1),
        "key_heads": known["heads"],
        "embedding_width": known["width"],
        **{f"decoder_{size}": known[size] for size in DECODER_SIZES},
        "output_bias": known["attention_bias"],
    }[size]


def _put(fields: dict[str, Any], name: str, text: str) -> None:
    *groups, last = name.split(".")
    for group in groups:
        fields = fields.setdefault(group, {})
        if not isinstance(fields, dict):
            raise ConfigError(f"--{name}: {group!r} is a value, not a group")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # a word needs no quotes on the command line, .3 no nought
        value = float(text) if SHORT.fullmatch(text) else text
    fields[last] = _from_caller(name.split("."), value)


def _from_caller(names: list[str], value: Any) -> Any:
    """The value of one field: its paths are relative to the working directory."""
    for name in reversed(names):
        value = {name: value}
    value = map_paths(Recipe, value, from_caller)
    for name in names:
        value = value[name]
    return value


def _tuples(fields: Any) -> Any:
    """TOML has lists; the config's are fixed."""
    if isinstance(fields, dict):
        return {name: _tuples(value) for name, value in fields.items()}
    return tuple(_tuples(each) for each in fields) if isinstance(fields, list) else fields
