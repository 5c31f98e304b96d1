"""Several models on one task: what is run, what is kept, and what the table says."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import statistics
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import at_step_of, live, result, signal_self

import glassformer as gf
from commands import glassformer, refused
from glassformer.data.store import Store
from tiny import labelled, write_recipe

STEPS = ("--train.steps", "6")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models that have seen their words, and a task."""
    folder = tmp_path_factory.mktemp("models")
    for name, width in (("wide", 16), ("slim", 8)):
        recipe = write_recipe(folder / name, "masked_lm", model={"width": width})
        glassformer("pretrain", recipe, "--out", folder / name / "run")
    write_recipe(folder / "task", "classification")
    return folder


@pytest.fixture(scope="module")
def words(place: Path) -> list[object]:
    models = [place / name / "run/model" for name in ("wide", "slim")]
    return ["compare", "--task", place / "task/recipe.toml", *models, "--seeds", 2, *STEPS]


@pytest.fixture(scope="module")
def done(place: Path, words: list[object]) -> dict[str, Any]:
    return dict(json.loads(glassformer(*words, "--out", place / "out", "--json")))


def kept(out: Path) -> dict[Path, int]:
    """When each run was last written to."""
    return {file: file.stat().st_mtime_ns for file in sorted(out.glob("*/*/metrics.jsonl"))}


def test_one_table_of_ordinary_runs(place: Path, words: list[object], done: dict[str, Any]) -> None:
    assert done["metric"] == "accuracy"
    wide, slim = done["models"]
    assert wide["parameters"] > slim["parameters"] and wide["memory"] > slim["memory"] > 0
    for model in done["models"]:
        assert [run["label"] for run in model["runs"]] == ["seed 0", "seed 1"]
        for name, mean in model["means"].items():
            values = [run["metrics"][name] for run in model["runs"]]
            assert mean == statistics.fmean(values)
            assert model["deviations"][name] == statistics.stdev(values)
        assert model["deviations"]["loss"] > 0 and model["seconds"] > 0
        for run in model["runs"]:
            loaded = gf.load(Path(run["folder"]) / "model")
            assert sum(p.numel() for p in loaded.parameters()) == model["parameters"]
            found = json.loads(
                glassformer("evaluate", f"{run['folder']}/model", run["folder"], "--json")
            )
            assert found["loss"] == run["metrics"]["loss"]
    rows = list(csv.DictReader(Path(done["table"]).read_text().splitlines()))
    for row, model in zip(rows, done["models"], strict=True):
        assert row["model"] == model["model"] and row["runs"] == "2"
        assert int(row["parameters"]) == model["parameters"]
        assert float(row["accuracy"]) == model["means"]["accuracy"]
        assert float(row["loss_deviation"]) == model["deviations"]["loss"]
    assert Path(done["figure"]).read_bytes().startswith(b"\x89PNG")


def test_finished_runs_are_reused(
    place: Path, words: list[object], done: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(place / "out", out)
    before = kept(out)
    said = glassformer(*words, "--out", out, columns=200)
    assert said.errors.count(": finished") == 4 and kept(out) == before
    for model in done["models"]:
        told = f"{model['means']['accuracy']:.4f} ± {model['deviations']['accuracy']:.4f}"
        line = next(line for line in said.splitlines() if line.startswith(model["model"]))
        assert told in line and f"{model['parameters']:,}" in line
    shutil.rmtree(list(before)[2].parent)
    again = json.loads(glassformer(*words, "--out", out, "--json"))
    assert [n for n, file in enumerate(before) if kept(out)[file] != before[file]] == [2]
    assert [each["means"] for each in again["models"]] == [m["means"] for m in done["models"]]
    longer = [*words[:-1], 9]
    said = glassformer(*longer, "--out", out)
    assert said.errors.count("resuming after step 6") == 4 and ": finished" not in said.errors


def test_killed_inside_its_second_run_it_resumes(
    words: list[object], done: dict[str, Any], tmp_path: Path
) -> None:
    die = partial(at_step_of, "seed-1", 5, partial(signal_self, signal.SIGKILL))
    assert live(*words, "--out", tmp_path / "cut", mischief=die).status == -9
    end = live(*words, "--out", tmp_path / "cut")
    assert end.status == 0, end.said
    assert end.said.count(": finished") == 1 and "resuming after step 3" in end.said
    for model in done["models"]:
        for run in model["runs"]:
            cut = tmp_path / "cut" / Path(run["folder"]).relative_to(Path(done["table"]).parent)
            assert result(cut) == result(Path(run["folder"]))


def stop_while_preparing(run: str) -> None:
    from glassformer.train import build

    prepare = build.prepare

    def stopped(documents: Any, tokenizer: Any, folder: Path, **settings: Any) -> Any:
        if folder.parent.parent.name == run:
            signal_self(signal.SIGTERM)
        return prepare(documents, tokenizer, folder, **settings)

    build.prepare = stopped


def test_interrupted_while_its_second_run_prepares(words: list[object], tmp_path: Path) -> None:
    stop = partial(stop_while_preparing, "seed-1")
    end = live(*words, "--out", tmp_path / "out", mischief=stop)
    assert end.status == 75, end.said
    assert "seed-1: interrupted before the first step: run the same" in end.said.splitlines()[-1]


def test_data_or_weights_that_have_changed(
    place: Path, words: list[object], done: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copytree(place / "out", tmp_path / "out")
    shutil.copytree(place / "task", tmp_path / "task")
    words = [*words, "--out", tmp_path / "out", "--data", tmp_path / "task"]
    assert glassformer(*words).errors.count(": finished") == 4  # it has moved: the same data
    (tmp_path / "task/text.tsv").write_text(labelled("classification", 121)[1])
    said = refused(*words)
    assert f"{tmp_path / 'task/text.tsv'}: this file has changed since" in said


def test_presets_and_a_test_of_its_own(place: Path, tmp_path: Path) -> None:
    """Random weights with the recipe's tokenizer; validation data chooses the checkpoint, and the
    metrics are those of the test data."""
    shutil.copytree(place / "task", tmp_path / "task")
    test = tmp_path / "task/test.tsv"
    test.write_text(labelled("classification", 40, seed=1)[1])
    task = tmp_path / "task/recipe.toml"
    small = ("--model.width", 16, "--model.heads", 2, "--model.mlp_width", 16)
    said = glassformer(
        "compare", "bert-tiny", *small, "--task", task, "--seeds", 1, "--test", test,
        "--out", tmp_path / "out", "--figure", tmp_path / "a.svg", "--json", *STEPS,
    )  # fmt: skip
    (model,) = json.loads(said)["models"]
    (run,) = model["runs"]
    assert model["deviations"] == {} and "<svg" in (tmp_path / "a.svg").read_text()
    made = gf.load(f"{run['folder']}/model")
    assert made.task.backbone.config.depth == 2  # of the preset: the recipe's is 1
    valid = ("--data.valid", test, "--json")
    found = json.loads(glassformer("evaluate", f"{run['folder']}/model", task, *valid))
    assert found["loss"] == run["metrics"]["loss"]
    words = ("compare", f"{run['folder']}/model", "--task", task, "--out", tmp_path / "as")
    only = json.loads(
        glassformer(*words, "--evaluate-only", "--test", test, "--json")
    )["models"][0]  # fmt: skip
    assert only["means"] == run["metrics"] and only["parameters"] == model["parameters"]
    assert ": finished" in glassformer(*words, "--evaluate-only", "--test", test).errors
    said = refused("compare", "bert-tiny", "--task", task, "--evaluate-only", code=2)
    assert "bert-tiny: random weights have learnt nothing" in said
    words_model = place / "wide/run/model"
    said = refused("compare", words_model, "--task", task, "--evaluate-only", code=2)
    assert "this model is for masked_lm" in said


def test_the_same_network_with_random_weights(place: Path, tmp_path: Path) -> None:
    model = place / "slim/run/model"
    hardly = ("--train.steps", 1, "--train.learning_rate", 1e-12)  # weights stay as they begin
    said = glassformer(
        "compare", model, f"{model}:random", "--task", place / "task/recipe.toml", "--seeds", 1,
        "--out", tmp_path, "--json", *hardly,
    )  # fmt: skip
    known = gf.load(model).task.backbone
    kept, random = (
        gf.load(f"{each['runs'][0]['folder']}/model") for each in json.loads(said)["models"]
    )
    assert kept.task.backbone.config == random.task.backbone.config == known.config
    assert torch.allclose(kept.task.backbone.token_embedding, known.token_embedding, atol=1e-6)
    assert not torch.allclose(
        random.task.backbone.token_embedding, known.token_embedding, atol=1e-4
    )
    assert kept.tokenizer.fingerprint == random.tokenizer.fingerprint


def test_folds_hold_out_every_text_once(place: Path, tmp_path: Path) -> None:
    said = glassformer(
        "compare", place / "slim/run/model", "--task", place / "task/recipe.toml", "--folds", 3,
        "--out", tmp_path, "--json", "--train.steps", 1,
    )  # fmt: skip
    (model,) = json.loads(said)["models"]
    assert [run["label"] for run in model["runs"]] == [f"seed 0, fold {n} of 3" for n in (1, 2, 3)]

    def texts(run: dict[str, Any], part: str) -> Counter[tuple[int, ...]]:
        tokens = Store(Path(run["folder"]) / "data" / part)["tokens"]
        return Counter(tuple(ids.tolist()) for ids in tokens.lists())

    held = [texts(run, "valid") for run in model["runs"]]
    everything = held[0] + texts(model["runs"][0], "train")
    assert sum(held, Counter()) == everything and everything.total() == 120
    for run, part in zip(model["runs"], held, strict=True):
        assert not part & texts(run, "train")


def wrong(place: Path) -> dict[str, tuple[list[object], int, str]]:
    task, model = place / "task/recipe.toml", place / "wide/run/model"
    own = ["--task", task, model]
    return {
        "no preset": (
            [*own, "bert-tyni"],
            2,
            "bert-tyni: no preset, no folder and no file: did you mean",
        ),
        "no model": (["--task", task, *STEPS], 2, "write the models"),
        "another family": ([*own, "gpt2"], 2, "'gpt2' is a decoder"),
        "no recipe": (["--task", place / "no.toml", model], 2, "no.toml: write the path of"),
        "a typo": ([*own, "--train.stepps", 3], 2, "did you mean '--train.steps'?"),
        "no value": ([*own, "--train.steps"], 2, "--train.steps: its value is missing"),
        "the run's folder": (["--task", task, model.parent], 1, f"use {model}"),
        "twice": ([*own, model], 2, "would share a folder"),
        "no data": ([*own, "--data.train", "none.tsv"], 1, "File not found: "),
        "no test": ([*own, "--test", "none.tsv"], 1, "none.tsv (test)"),
        "no validation data": (
            [*own, "--data.valid_fraction", 0],
            2,
            "there is no validation data",
        ),
        "folds of nothing": ([*own, "--folds", 3, "--data.valid", "text.tsv"], 2, "data.fold"),
        "no picture": ([*own, "--figure", "a.gif"], 2, "ends in .png or .svg"),
        "random and not trained": (
            [f"{model}:random", "--task", task, "--evaluate-only"],
            2,
            "random weights have learnt nothing",
        ),
        "random of a preset": ([*own, "bert-tiny:random"], 2, "bert-tiny: no such folder"),
        "seeds of nothing": (
            [*own, "--evaluate-only", "--seeds", 2],
            2,
            "--evaluate-only is not random",
        ),
    }


def test_all_is_checked_before_the_first_run(place: Path, tmp_path: Path) -> None:
    for name, (words, code, said) in wrong(place).items():
        line = refused("compare", *words, "--out", tmp_path / "out", code=code)
        assert said in line, name
        assert not (tmp_path / "out").exists(), name


def test_without_matplotlib_the_table_comes_alone(
    place: Path, words: list[object], done: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != "matplotlib" or None)
    said = glassformer(*words, "--out", place / "out", "--json")
    assert "needs matplotlib: pip install 'glassformer[plot]'" in said.errors
    assert json.loads(said)["figure"] is None
    line = refused(*words, "--out", place / "out", "--figure", "a.png", code=2)
    assert "pip install 'glassformer[plot]'" in line


def test_torchrun_is_refused(words: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "without torchrun" in refused(*words, code=2)
