"""Training from Python: `gf.finetune` on rows of any kind, `gf.fit` by a Recipe or a dict."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest

import glassformer as gf
from folders import one_line
from glassformer.data.records import records
from glassformer.errors import GlassformerError
from glassformer.objectives import OBJECTIVES
from glassformer.recipe.schema import read_recipe
from glassformer.train.finetune import FinetuneTask
from sampling import mostly_slow
from tiny import sentences, write_recipe

TEXTS = sentences(40)
LABELS = ["cat" if "cat" in text else "none" for text in TEXTS]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
SIZES = {"width": 16, "depth": 1, "heads": 2, "mlp_width": 24, "max_length": 64}
SHORT = {"train.steps": 2, "train.device": "cpu", "objective.length": 32}
PAIRS = {2: ("text", "label")}


@pytest.fixture(scope="module")
def small() -> gf.Model:
    """A small BERT with the tokenizer of gf-encoder."""
    tokenizer = gf.load("gf-encoder").tokenizer
    config = gf.ModelConfig(
        family="encoder", vocab_size=len(tokenizer), segments=2, embedding_norm=True,
        norm_place="post", final_norm=False, **SIZES,
    )  # fmt: skip
    return gf.Model(gf.build_task(config, gf.TaskConfig(kind="masked_lm")), tokenizer).eval()


@pytest.fixture(scope="module")
def folder(small: gf.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "model"
    small.save(path)
    return path


class Frame:
    """What we use of a pandas DataFrame."""

    iloc = None

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return ROWS


class Dataset:
    """What we use of a Hugging Face Dataset."""

    column_names = ("text", "label")

    def __init__(self) -> None:
        self.features = {"text": SimpleNamespace(), "label": SimpleNamespace(names=["none", "cat"])}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from ({**row, "label": np.int64(row["label"] == "cat")} for row in ROWS)


OBJECTS: dict[str, Any] = {
    "dicts": ROWS,
    "tuples": list(zip(TEXTS, LABELS, strict=True)),
    "a generator": (row for row in ROWS),
    "columns": {"text": np.array(TEXTS), "label": LABELS},
    "pandas": Frame(),
    "polars": SimpleNamespace(to_dicts=lambda: ROWS),
    "datasets": Dataset(),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_rows_of_any_kind_are_the_same_rows(kind: str) -> None:
    assert records(OBJECTS[kind], "train", PAIRS) == ROWS


def test_a_list_is_enough_to_train_and_to_resume(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    events = list(gf.finetune(folder, "classification", train=ROWS, valid=ROWS[:9], changes=SHORT))
    assert [event.number for event in events if isinstance(event, gf.Step)] == [1, 2]
    (evaluated,) = (event for event in events if isinstance(event, gf.Evaluated))
    assert "accuracy" in evaluated.metrics
    written = (tmp_path / "runs/classification/source/valid.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == ROWS[:9]
    recipe = tomllib.loads((tmp_path / "runs/classification/recipe.toml").read_text())
    assert recipe["data"]["train"] == "train.jsonl" and recipe["data"]["valid"] == "valid.jsonl"
    again = gf.finetune(
        folder, "classification", train=iter(ROWS), valid=ROWS[:9],
        changes=SHORT | {"train.steps": 3},
    )  # fmt: skip
    model = again.run(progress=False)
    assert again.recipe.train.steps == 3 and model.classify("the cat")[0].label in LABELS
    with pytest.raises(GlassformerError) as caught:
        gf.finetune(folder, "classification", train=ROWS[1:], changes=SHORT)
    one_line(caught.value, "runs/classification", "other train data", "out")


OTHER: dict[str, tuple[list[Any], str]] = {
    "token_classification": (
        [{"tokens": ["the", "cat"], "ner_tags": ["O", "B-animal"]}, (["a", "mat"], ["O", "O"])] * 9,
        "tag",
    ),
    "question_answering": (
        [{"question": "who", "context": "a cat sat", "answers": {"text": ["cat"],
                                                                "answer_start": [2]}},
         ("where", "the cat sat by the sea", "sea")] * 9,
        "answer",
    ),
    "sentence_embedding": (list(itertools.pairwise(TEXTS)), "embed"),
}  # fmt: skip


@pytest.mark.parametrize("task", mostly_slow(OTHER))
def test_the_other_tasks_take_rows(task: Any, small: gf.Model, tmp_path: Path) -> None:
    rows, call = OTHER[task]
    training = gf.finetune(small, task, train=rows, valid=rows, out=tmp_path / "run", changes=SHORT)
    assert training.recipe.init_from == str(tmp_path / "run/source/model")
    trained = training.run(progress=False)
    words = ("who", "a cat") if call == "answer" else ("a cat",)
    assert len(getattr(trained, call)(*words)) if call != "tag" else trained.tag("a cat").labels


def test_a_file_is_taken_as_it_is(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,label\n" + "a cat,yes\na dog,no\n" * 9)
    training = gf.finetune(
        folder, "classification", train=tmp_path / "mine.csv", out=tmp_path / "run",
        changes=SHORT | {"data.valid_fraction": 0.0},
    )  # fmt: skip
    assert sum(isinstance(event, gf.Step) for event in training) == 2
    assert not (tmp_path / "run/source").exists()


WRONG: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no rows": ([], ("train is empty",)),
    "a number": (5, ("train = 5", "a list")),
    "texts alone": (["a cat"], ("train[0]", "'a cat'", "(text, label)")),
    "a row too long": ([("a", "b", "c", "d")], ("train[0]", "(text, label)")),
    "columns of two lengths": ({"text": ["a"], "label": []}, ("text 1, label 0",)),
    "a column of one": ({"text": "a", "label": ["b"]}, ("train['text']", "a list")),
    "parts": ({"train": Dataset(), "test": Dataset()}, ("train:", "'train', 'test'")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_is_one_line(name: str, tmp_path: Path) -> None:
    rows, words = WRONG[name]
    with pytest.raises(GlassformerError) as caught:
        gf.finetune("gf-encoder", "classification", train=rows, out=tmp_path / "run")
    one_line(caught.value, *words)
    assert not (tmp_path / "run").exists()


def test_wrong_tags_answers_tasks_and_models_are_one_line(tmp_path: Path) -> None:
    rows, out = [(["a", "b"], ["O"])], tmp_path / "run"
    for model, task, train, words in (
        ("gf-encoder", "token_classification", rows, ("train[0]", "a tag for each")),
        ("gf-encoder", "token_classification", [{"text": "a"}], ("'words' or 'tokens'", "'text'")),
        ("gf-encoder", "question_answering", [("who", "a cat", "dog")], ("train[0]", "'dog'")),
        ("gf-encoder", "classify", ROWS, ("'classify'", "classification")),
        (5, "classification", ROWS, ("finetune(5", "folder")),
    ):
        with pytest.raises(GlassformerError) as caught:
            gf.finetune(model, task, train=train, out=out)  # type: ignore[arg-type]
        one_line(caught.value, *words)


def test_the_tasks_are_those_with_a_short_form() -> None:
    assert set(get_args(FinetuneTask)) == {n for n, each in OBJECTIVES.items() if each.short_form}


def test_a_recipe_or_a_dict_trains_as_its_file_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_recipe(tmp_path)
    monkeypatch.chdir(tmp_path)
    losses = []
    for recipe in (path, read_recipe(path), tomllib.loads(path.read_text())):
        run = gf.fit(recipe, out=f"run-{len(losses)}", changes={"train.steps": 2})
        losses.append([event.loss for event in run if isinstance(event, gf.Step)])
        assert run.recipe.train.steps == 2
    assert len(losses[0]) == 2 and losses[0] == losses[1] == losses[2]
    built = gf.Recipe(**read_recipe(path).model_dump())
    assert built == read_recipe(path)
    assert next(gf.fit(built, out="run-0", changes={"train.steps": 3})).number == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (5, ("fit(5)", "gf.Recipe")),
        ({"name": "x"}, ("recipe", "data")),
        ({"name": "x", "data": {"train": "a"}, "model": [1]}, ("recipe",)),
    ],
)
def test_what_is_no_recipe_is_one_line(wrong: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(GlassformerError) as caught:
        gf.fit(wrong)
    one_line(caught.value, *words)


def test_a_run_shows_a_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gf.fit(write_recipe(tmp_path), out=tmp_path / "run").run()
    assert "6/6" in capsys.readouterr().err
