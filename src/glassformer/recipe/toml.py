"""Recipes as files: read, and written again."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from glassformer.errors import ConfigError
from glassformer.recipe.paths import full_path

RECIPE = "recipe.toml"  # in the folder of a run
MOST_RECIPE = 1 << 20  # bytes
ROOT = "GLASSFORMER_DATA"


class RootedRecipe(Protocol):
    @property
    def root(self) -> str | None: ...


def read_fields(path: Path) -> dict[str, Any]:
    """The fields of a recipe file, or of the recipe in a run's folder."""
    try:
        if not path.exists():
            raise ConfigError(
                f"File not found: {path.absolute()}: write the path of a recipe (TOML)"
            )
        file = path / RECIPE if path.is_dir() else path
        if path.is_dir() and not file.is_file():
            raise ConfigError(
                f"{path}: no {RECIPE} in this folder: write a recipe (TOML), or a run's folder"
            )
        with file.open("rb") as stream:
            content = stream.read(MOST_RECIPE + 1)
        if len(content) > MOST_RECIPE:
            raise ConfigError(f"{file}: more than {MOST_RECIPE:,} bytes: this is not a recipe")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # UTF-8 and TOML, or a number of 5,000 digits
        hint = ': a text needs quotes, as in name = "mine"' if "Invalid value" in str(error) else ""
        if path.suffix != ".toml" and path.is_file():
            raise ConfigError(f"{path}: this is not a recipe: give a TOML file") from None
        raise ConfigError(f"{path}: not valid TOML: {error}{hint}") from None


def root_of(recipe: RootedRecipe, data: Path | None, path: Path) -> Path:
    """The data folder: `data`, or the recipe's root, the environment's, or the recipe's folder."""
    if data is None and recipe.root is not None:
        data = path.parent / recipe.root
    return full_path(data or os.environ.get(ROOT) or path.parent)


def as_toml(recipe: BaseModel) -> str:
    """The recipe with all its fields, defaults included; `read_recipe` reads it back.

    With `epochs` there are no `steps`: they follow from the epochs.
    """
    fields = recipe.model_dump(mode="json", exclude_none=True)
    if "epochs" in fields["train"]:
        del fields["train"]["steps"]
    groups = {name: value for name, value in fields.items() if isinstance(value, Mapping)}
    written = _lines({name: value for name, value in fields.items() if name not in groups})
    for name, group in groups.items():
        if group:
            written += f"\n[{name}]\n{_lines(group)}"
    return written


def _lines(fields: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in fields.items())


def _value(value: Any) -> str:
    """As in JSON, which TOML shares; a nested group is one line."""
    if isinstance(value, Mapping):
        inside = (f"{name} = {_value(each)}" for name, each in value.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
