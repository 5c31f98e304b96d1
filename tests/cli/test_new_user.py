"""What a new user meets first: other libraries' names, output in a pipe, numbers and nouns."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import glassformer, refused
from glassformer.cli.console import Console
from glassformer.errors import counted, with_article
from glassformer.objectives import OBJECTIVES
from glassformer.recipe.field_names import ELSEWHERE, UNITS, field_names
from glassformer.recipe.reference import new_recipe, recipe_fields
from glassformer.recipe.schema import read_recipe
from tiny import labelled, write_recipe

MEANT = {
    "--epochs": "--train.epochs",
    "--batch-size": "--train.micro_batch_tokens' (in tokens, not texts)",
    "--lr": "--train.learning_rate",
    "--train.lr": "--train.learning_rate",
    "--train.batch_size": "--train.micro_batch_tokens",
    "--n_layer": "--model.depth",
    "--train.length": "--objective.length",
    "--train.stepps": "--train.steps",
}


@pytest.mark.parametrize("option", MEANT)
def test_an_unknown_option_names_the_field_that_is_meant(option: str, tmp_path: Path) -> None:
    said = refused("pretrain", write_recipe(tmp_path), option, "3", code=2)
    assert f"{option}: there is no such option or field: did you mean '{MEANT[option]}" in said


def test_so_does_an_unknown_field_of_a_recipe(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    text = recipe.read_text()
    for group, name, field in (
        ("train", "lr", "train.learning_rate"),
        ("train", "batch_size", "train.micro_batch_tokens"),
        ("model", "n_layer", "model.depth"),
        ("objective", "warmup", "train.warmup"),
    ):
        recipe.write_text(text.replace(f"[{group}]", f"[{group}]\n{name} = 3"))
        said = refused("pretrain", recipe, code=2)
        assert f"did you mean {field!r}" in said and f"{name}' (value 3)" in said
    recipe.write_text("epochs = 3\n" + text)
    assert "unknown field 'epochs' (value 3): did you mean 'train.epochs'?" in (
        refused("pretrain", recipe, code=2)
    )
    recipe.write_text("zzz = 3\n" + text)
    assert "`glassformer recipe fields` lists all" in refused("pretrain", recipe, code=2)


def test_the_names_of_others_lead_to_fields_that_are() -> None:
    others = [name for names in ELSEWHERE.values() for name in names]
    assert len(set(others)) == len(others)
    assert {*ELSEWHERE, *UNITS} <= set(field_names())


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Console(force_terminal=False).width > 1_000
    assert Console(force_terminal=True, width=70).width == 70
    code = "from glassformer.cli.main import main; main()"
    command = [sys.executable, "-c", code, "recipe", "fields", "objective.on_truncate"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.count("\n") == 2 and max(map(len, said.splitlines())) > 120


def test_one_is_not_many(tmp_path: Path) -> None:
    assert counted(1, "documents of one sentence") == "1 document of one sentence"
    assert counted(2000, "texts") == "2,000 texts"
    assert (with_article("encoder"), with_article("decoder")) == ("an encoder", "a decoder")
    recipe = write_recipe(tmp_path, data={"valid_fraction": 0.0})
    (tmp_path / "text.txt").write_text("the cat sat on a mat " * 30)
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--dry-run", columns=200)
    assert "1 document, " in said and "1 document of more than" in said
    assert not re.search(r"\b1 (\w+s)\b", said)


def test_every_field_has_a_meaning() -> None:
    fields = {each.name: each for each in recipe_fields()}
    assert all(each.meaning and each.values for each in fields.values())
    dotted = {name for name in field_names() if not name.startswith("model.ids")}
    groups = {"model.dropout", "model.rotary_scaling"}
    assert dotted - groups - set(fields) == {"model.family", "model.vocab_size"}
    assert fields["train.learning_rate"].default == "0.001"
    assert fields["tokenizer.kind"].values.startswith('"bpe", "wordpiece"')
    assert fields["objective.overlap"].objectives == ("question_answering",)
    assert "layers" not in fields["model.norm"].meaning  # a heading of the source


def test_the_command_lists_fields() -> None:
    said = glassformer("recipe", "fields", "rate", columns=200)
    assert "train.learning_rate = 0.001  (number)\n    The highest, after the warm-up.\n" in said
    assert "train.steps" not in said
    assert "no field has this in its name" in refused("recipe", "fields", "zzz", code=2)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_a_new_recipe_can_be_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.toml"
    path.write_text(new_recipe(kind))
    recipe = read_recipe(path)
    assert recipe.objective.kind == kind and recipe.name == kind


def test_a_new_recipe_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    glassformer("recipe", "new", "classification", "--out", "mine.toml")
    Path("train.tsv").write_text(labelled("classification", 60)[1])
    words = ("finetune", "gf-encoder", "mine.toml", "--dry-run")
    assert "classification, from gf-encoder" in glassformer(*words)
    assert "mine.toml: exists" in refused("recipe", "new", "classification", "--out", "mine.toml",
                                          code=2)  # fmt: skip
    assert "write one of causal_lm" in refused("recipe", "new", "reading", code=2)
