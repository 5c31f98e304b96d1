"""`evaluate` gives the figures that the run itself gave."""

import json
import math

import pytest

from commands import glassformer, refused
from sampling import mostly_slow
from tiny import KINDS, text, write_recipe


@pytest.fixture(scope="module", params=mostly_slow(reversed(KINDS), keep=2))
def trained(request, tmp_path_factory):
    """Recipe, run and what the run found at its end."""
    folder = tmp_path_factory.mktemp(request.param)
    recipe = write_recipe(folder, request.param)
    said = glassformer("pretrain", recipe, "--out", folder / "run", "--json")
    return recipe, folder / "run", json.loads(said)["valid"], request.param


def test_evaluate_agrees_with_the_run(trained):
    recipe, run, figures, kind = trained
    said = glassformer("evaluate", run / "model", recipe, "--json", "--translate", 0)
    found = json.loads(said)
    assert found.pop("model") == str(run / "model") and found.pop("recipe") == str(recipe)
    bits = found.pop("bits_per_byte", None)
    assert found == figures
    assert (bits is not None) == (kind == "causal_lm")
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]), rel=1e-6) or (
        kind == "masked_lm_nsp"
    )
    told = glassformer("evaluate", run / "model", recipe, "--translate", 0)
    assert f"{figures['loss']:,.4f}" in told and max(map(len, told.splitlines())) <= 80


def test_nothing_is_written(trained):
    recipe, run, _, _ = trained
    before = {file: file.stat().st_mtime_ns for file in recipe.parent.rglob("*")}
    glassformer("evaluate", run / "model", recipe)
    assert {file: file.stat().st_mtime_ns for file in recipe.parent.rglob("*")} == before


def test_other_rows_give_the_same_figures(trained, tmp_path):
    """Also "auto": a loss does not depend on how texts stand in rows."""
    _, run, figures, kind = trained
    for tokens in (40, "auto"):
        other = write_recipe(tmp_path, kind, train={"micro_batch_tokens": tokens, "compile": True})
        found = json.loads(glassformer("evaluate", run / "model", other, "--json"))
        assert found["loss"] == pytest.approx(figures["loss"], rel=1e-5)
        assert found["answers"] == figures["answers"]


def test_bits_per_byte(tmp_path):
    """A file of its own for validation: its bytes, and the nats of all its tokens."""
    recipe = write_recipe(
        tmp_path, data={"valid": "valid.txt", "document": "file"},
        tokenizer={"kind": "bytes", "vocab_size": 8_000},  # the usual number: nobody asked for it
    )  # fmt: skip
    (tmp_path / "valid.txt").write_text(text(5, seed=1))
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    found = json.loads(glassformer("evaluate", tmp_path / "run/model", recipe, "--json"))
    size = len(text(5, seed=1).encode())
    assert found["answers"] == size  # of every byte but the first, and the end
    assert found["bits_per_byte"] == pytest.approx(found["loss"] / math.log(2), rel=1e-6)


def test_each_document_for_itself(tmp_path):
    """What a document's own tokens cost, though they stand in several windows and rows."""
    recipe = write_recipe(tmp_path, train={"micro_batch_tokens": 40})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    model = tmp_path / "run/model"
    found = json.loads(glassformer("evaluate", model, recipe, "--json", "--per-document"))
    documents = found["documents"]
    assert sum(each["answers"] for each in documents) == found["answers"] and len(documents) > 1
    whole = sum(each["answers"] * each["loss"] for each in documents)
    assert whole == pytest.approx(found["loss"] * found["answers"], rel=1e-5)
    one = (tmp_path / "text.txt").read_text().split("\n\n")
    one = next(each for each in one if each.startswith(documents[1]["begins"]))
    (tmp_path / "one.txt").write_text(one)
    alone = glassformer("evaluate", model, recipe, "--json", "--data.valid", tmp_path / "one.txt")
    for name in ("loss", "perplexity", "bits_per_byte"):
        assert json.loads(alone)[name] == pytest.approx(documents[1][name], rel=1e-5)
    told = glassformer("evaluate", model, recipe, "--per-document")
    assert documents[1]["begins"] in told and f"{documents[1]['bits_per_byte']:.4f}" in told
    masked = write_recipe(tmp_path / "m", "masked_lm")
    glassformer("pretrain", masked, "--out", tmp_path / "m/run")
    said = refused("evaluate", tmp_path / "m/run/model", masked, "--per-document", code=2)
    assert "has no documents" in said


def test_a_recipe_with_cuda_graphs_measures_documents(tmp_path):
    """The pooling is the model's; nothing is recorded where nothing is learnt."""
    recipe = write_recipe(tmp_path, "classification", objective={"pool": "words"})
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    captured = write_recipe(tmp_path, "classification", train={"cuda_graphs": True})
    said = glassformer("evaluate", tmp_path / "run/model", captured, "--json")
    assert json.loads(said)["accuracy"] > 0.3


def test_refused_in_one_line(trained, tmp_path):
    recipe, run, _, kind = trained
    model = run / "model"
    assert "recipe (TOML)" in refused("evaluate", model, tmp_path / "none.toml", code=2)
    assert "no recipe.toml in this folder" in refused("evaluate", model, tmp_path, code=2)
    assert "there is no model in it" in refused("list", tmp_path)
    assert str(tmp_path) in refused("evaluate", tmp_path, recipe)
    assert f"the folder of a run: use {model}" in refused("evaluate", run, recipe)
    assert "File not found: " in refused("evaluate", model, recipe, "--data", tmp_path)
    other = write_recipe(tmp_path / "o", "masked_lm" if kind != "masked_lm" else "causal_lm")
    assert "this model is for " in refused("evaluate", model, other, code=2)
    nothing = write_recipe(tmp_path / "n", kind, data={"valid_fraction": 0.0})
    assert "there is no validation data" in refused("evaluate", model, nothing, code=2)
