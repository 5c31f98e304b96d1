"""Every number of a recipe, and of an option, has bounds; a name is that of one folder."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from glassformer.checkpoint.budget import check_memory
from glassformer.cli.common import with_paths
from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import ConfigError
from glassformer.recipe.field_names import GROUPS
from glassformer.recipe.schema import read_recipe
from glassformer.text.training import train_tokenizer
from glassformer.train.init_from import check_model
from tiny import write_recipe


def numbers(schema: type[BaseModel], group: str) -> list[tuple[str, set[str]]]:
    """The numeric fields, and the kinds of bounds that each has."""
    fields = []
    for name, field in schema.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields += numbers(kind, f"{group}.{name}")
            continue
        marks, kinds, left = list(field.metadata), set(), [kind]
        while left:
            each = left.pop()
            if get_origin(each) is Annotated:
                marks += each.__metadata__
            left += [inside for inside in get_args(each) if not isinstance(inside, str)]
            kinds.add(each)
        if {int, float} & kinds:
            inside = [m for mark in marks for m in getattr(mark, "metadata", [mark])]
            fields.append((f"{group}.{name}", {type(mark).__name__ for mark in inside}))
    return fields


NUMBERS = [each for group, schema in GROUPS.items() for each in numbers(schema, group)]


def test_every_number_is_bounded_on_both_sides() -> None:
    assert len(NUMBERS) > 45
    for name, marks in NUMBERS:
        assert marks & {"Gt", "Ge"} and marks & {"Lt", "Le"}, name


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", 2**70, -(2**70), "1e400", "9" * 5_000])
def test_no_field_takes_a_number_that_overflows(tmp_path: Path, value: object) -> None:
    recipe = write_recipe(tmp_path)
    for name, _ in NUMBERS:
        with pytest.raises(ConfigError, match=name.rpartition(".")[2]):
            read_recipe(recipe, {name: str(value)})


@pytest.mark.parametrize(
    "name", ["..", ".", ".hidden", "-x", "a/b", "a" * 101, "字" * 100, "a.", "nul", "", "a\n"]
)
def test_a_name_is_that_of_one_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name = "):
        read_recipe(write_recipe(tmp_path), {"name": json.dumps(name)})


def test_names_of_a_hundred_letters_are_fine(tmp_path: Path) -> None:
    name = "ñ." * 49 + "ñ1"
    assert read_recipe(write_recipe(tmp_path), {"name": name}).name == name


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model.width": "1000000000"}, "width = 1000000000"),
        ({"model.mlp_width": "2000000000"}, "mlp_width = 2000000000"),
        ({"model.max_length": "2000000000"}, "max_length = 2000000000"),
        ({"model.depth": "1000"}, "at most 160"),
    ],
)
def test_a_model_larger_than_the_memory_is_refused(
    tmp_path: Path, changes: dict[str, str], named: str
) -> None:
    recipe = read_recipe(write_recipe(tmp_path), changes)
    with pytest.raises(ConfigError, match=named):
        check_model(recipe, "recipe.toml")


def test_the_memory_counts_every_block() -> None:
    sizes = {"vocab_size": 7, "width": 2048, "heads": 2, "mlp_width": 8192, "max_length": 5}
    check_memory(ModelConfig(family="decoder", depth=1, **sizes), TaskConfig(), 4, "r")
    with pytest.raises(ConfigError, match="mlp_width = 8192, width = 2048: training needs"):
        check_memory(ModelConfig(family="decoder", depth=1_000, **sizes), TaskConfig(), 4_000, "r")


def test_the_recipe_file_itself_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for content in ("a = " + "9" * 5_000, "a = " + "[" * 50_000, "#" * (2 << 20), "\udcff"):
        path.write_text(content, "utf-8", "surrogateescape")
        with pytest.raises(ConfigError, match=r"recipe\.toml: (not valid TOML|more than)"):
            read_recipe(path)


@pytest.mark.parametrize("fields", [{"preset": {"a": 1}}, {"family": "encoder"}])
def test_wrong_kinds_of_model_fields(tmp_path: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(fields))):
        read_recipe(write_recipe(tmp_path, model=fields))


def test_a_tokenizer_of_too_many_tokens_is_refused_before_the_library_allocates_them() -> None:
    with pytest.raises(ConfigError, match="at most 1000000"):
        train_tokenizer(["a b"], "bpe", 2**40)


@pytest.mark.parametrize("value", [2**63, -(2**70), math.nan, math.inf, -math.inf, 1e300])
def test_options_of_every_command_are_bounded(value: float) -> None:
    command = with_paths(lambda **options: None)
    command(top_k=5, threshold=-0.5, seed=2**62)
    with pytest.raises(ConfigError, match=r"--top-k .*: write a finite number"):
        command(top_k=value)
