"""Paths of the command line start in the working directory, those of a recipe beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from harness import write_recipe

from commands import glassformer, refused
from glassformer.errors import ConfigError
from glassformer.recipe.paths import PathField, full_path, map_paths
from glassformer.recipe.schema import Recipe, read_recipe, recipe_fields
from glassformer.train.compare_plan import plan
from tiny import labelled
from tiny import write_recipe as other_recipe


def test_the_schema_says_which_fields_are_paths() -> None:
    """Every text of a recipe, so that a new path needs no list to be changed."""
    fields: dict[str, Any] = {
        "name": "n", "init_from": "s", "root": "r",
        "data": {"train": "t", "valid": "v", "field": "f", "text": "x", "more": [{"train": "m"}]},
        "tokenizer": {"path": "p", "kind": "bpe"},
        "model": {"preset": "gpt2"},
    }  # fmt: skip
    seen: dict[str, bool] = {}

    def change(text: str, field: PathField) -> str:
        seen[text] = field.of_model
        return text.upper()

    changed = map_paths(Recipe, fields, change)
    assert seen == {"s": True, "r": False, "t": False, "v": False, "m": False, "p": False}
    assert changed["data"]["more"] == [{"train": "M"}] and changed["data"]["field"] == "f"
    assert fields["data"]["train"] == "t"


def test_a_path_of_the_command_line_starts_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path / "recipes", steps=2)
    shutil.move(tmp_path / "recipes/text.txt", tmp_path / "input.txt")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ("pretrain", "../recipes/recipe.toml", "--out", "run")
    glassformer(*words, "--data.train", "../input.txt")
    assert read_recipe(Path("run")).data.train == str(tmp_path / "input.txt")
    monkeypatch.chdir(tmp_path)  # a run can be continued from elsewhere
    glassformer("pretrain", recipe, "--out", "here/run", "--data.train", "input.txt")
    words = ("pretrain", recipe, "--out", "other")
    said = glassformer(*words, "--data.train", "none.txt", code=1).errors
    assert f"File not found: {tmp_path / 'none.txt'} (data.train)\n" in said
    said = glassformer(*words, code=1).errors  # the recipe's own, beside it
    where = "(data.train = 'text.txt', relative to the recipe's folder)\n"
    assert f"File not found: {tmp_path / 'recipes/text.txt'} {where}" in said
    card = (tmp_path / "here/run/model/README.md").read_text("utf-8")
    assert "on `input.txt`" in card and str(tmp_path) not in card


def test_every_path_that_a_caller_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_recipe(tmp_path / "recipes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    changes = {
        "data.valid": "v.txt", "tokenizer.path": "~/words", "root": "data/../texts",
        "data.more": '[{ train = "m.txt" }]',
    }  # fmt: skip
    found = read_recipe(recipe, changes)
    assert found.data.train == "text.txt"
    assert found.data.valid == str(tmp_path / "v.txt")
    assert found.tokenizer.path == str(tmp_path / "home/words")
    assert found.root == str(tmp_path / "texts")
    assert found.data.more[0].train == str(tmp_path / "m.txt")


def test_paths_inside_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_recipe(tmp_path / "recipes")
    groups = recipe.read_text().split("\n\n")
    text = "\n\n".join(g for g in groups if not g.startswith(("[model", "[tokenizer")))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    for start, path in (
        ("models/mine", str(tmp_path / "recipes/models/mine")),
        ("../mine", str(tmp_path / "mine")),
        ("~/mine", str(tmp_path / "home/mine")),
        ("gf-decoder", "gf-decoder"),
    ):
        recipe.write_text(f'init_from = "{start}"\n' + text.replace('"text.txt"', '"~/text.txt"'))
        found = read_recipe(recipe)
        assert found.init_from == path
        assert found.data.train == str(tmp_path / "home/text.txt")
    monkeypatch.chdir(tmp_path)
    assert read_recipe(recipe, {"init_from": "mine"}).init_from == str(tmp_path / "mine")
    assert read_recipe(recipe, {"init_from": "gf-encoder"}).init_from == "gf-encoder"


def test_a_link_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ending says how it is read."""
    (tmp_path / "blob").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "a/rows.tsv").symlink_to(tmp_path / "blob")
    monkeypatch.chdir(tmp_path / "a")
    assert full_path("../a/rows.tsv") == tmp_path / "a/rows.tsv"
    assert full_path("..") == tmp_path
    assert full_path("x", tmp_path) == tmp_path / "x"


def test_models_and_the_test_of_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = other_recipe(tmp_path / "task", "classification")
    monkeypatch.chdir(tmp_path)
    changes = {"objective.length": "16"}
    models = {name: name for name in ("mine:random", "gf-encoder", "bert-tiny")}
    runs = plan(
        models, recipe_fields(task), changes, str(task), Path("out"), 1, None, "test.tsv",
    )  # fmt: skip
    assert [each.recipe.init_from for each in runs] == [str(tmp_path / "mine"), "gf-encoder", None]
    assert {each.measuring.data.valid for each in runs} == {str(tmp_path / "test.tsv")}
    said = refused("compare", "gf-encoder", "--task", task, "--test", "none.tsv", "--out", "out")
    assert f"File not found: {tmp_path / 'none.tsv'} (test)\n" in said


def test_fine_tuning_a_file_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "rows.tsv").write_text(labelled("classification", 60)[1])
    monkeypatch.chdir(tmp_path / "here")
    words = ("--objective", "classification", "--data", "../rows.tsv", "--out", "run", "--dry-run")
    said = json.loads(glassformer("finetune", "gf-encoder", *words, "--json"))
    assert said["init_from"] == "gf-encoder"
    said = refused("finetune", "gf-encoder", "--objective", "classification", "--data", "no.tsv")
    assert f"File not found: {tmp_path / 'here/no.tsv'}\n" in said


@pytest.mark.parametrize("name", ["con", "NUL", "aux.1", "lpt1", "a."])
def test_a_run_has_a_name_that_every_system_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not every system allows such a folder"):
        read_recipe(write_recipe(tmp_path), {"name": f'"{name}"'})


def test_a_path_that_leads_nowhere_says_where_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path / "recipes", steps=2)
    recipe.write_text(recipe.read_text().replace('kind = "chars"', 'path = "words"'))
    monkeypatch.chdir(tmp_path)
    said = refused("pretrain", recipe, "--out", "run")
    line = "(tokenizer.path = 'words', relative to the recipe's folder)"
    assert f"File not found: {tmp_path / 'recipes/words'} {line}\n" in said
    (tmp_path / "data").mkdir()
    said = refused("pretrain", recipe, "--out", "run", "--data", "data", "--tokenizer.path", ".")
    line = f"(data.train = 'text.txt', relative to the data folder {tmp_path / 'data'})"
    assert f"File not found: {tmp_path / 'data/text.txt'} {line}\n" in said


def test_the_folder_above_a_result_is_not_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path, steps=1)
    monkeypatch.chdir(tmp_path)
    for words in (
        ("pretrain", recipe), ("tokenizer", "train", "text.txt"),
        ("data", "prepare", "text.txt", "--tokenizer", "x"),
    ):  # fmt: skip
        said = refused(*words, "--out", "rusn/mine", code=2)
        assert f"rusn/mine: there is no folder {tmp_path / 'rusn'}: create it" in said
    assert "create it" in refused("export", "gf-encoder", "rusn/mine", code=2)
    assert not Path("rusn").exists()
    glassformer("pretrain", recipe, "--out", "runs/mine", "--dry-run")  # as by default


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell leaves that of --out=~/run as it is."""
    write_recipe(tmp_path / "home", steps=1)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    glassformer("tokenizer", "train", "~/text.txt", "--out=~/words", "--kind", "chars")
    glassformer("data", "prepare", "~/text.txt", "--tokenizer=~/words", "--out=~/store")
    words = ("--data.train=~/store", "--data.valid_fraction=0", "--tokenizer.path=~/words")
    glassformer("pretrain", "~/recipe.toml", "--out=~/run", *words, "--dry-run")
    assert {"words", "store", "run"} <= {path.name for path in (tmp_path / "home").iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
