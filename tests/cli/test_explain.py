"""`glassformer explain`: what is printed is what the functions say."""

import json
from pathlib import Path
from typing import get_args

import pytest

import glassformer as gf
from commands import glassformer, refused
from folders import CONFIGS, TASKS, heat
from glassformer.cli import explain, reproduce
from glassformer.glass import predictions
from glassformer.interpret.attribution import direct_logit_attribution
from glassformer.interpret.circuits import edge_effects
from glassformer.interpret.contrast import ask
from glassformer.interpret.inputs import Method, input_attribution
from glassformer.interpret.patching import Site, patching_sweep
from glassformer.interpret.probing import Probe
from glassformer.interpret.reproduce import NAMES
from glassformer.interpret.steering import SteeringVector
from glassformer.interpret.tuned_lens import TunedLens
from glassformer.text.training import train_tokenizer
from speakers import bert

CLEAN, CORRUPTED = "the cat [MASK] on the mat.", "the mat [MASK] on the mat."


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "model"
    bert("BertForMaskedLM", folder)
    return folder


@pytest.fixture(scope="module")
def model(masked) -> gf.Model:
    return gf.load(masked)


def test_logits(masked: Path, model: gf.Model) -> None:
    split = direct_logit_attribution(model, CLEAN)
    report = json.loads(glassformer("explain", "logits", masked, CLEAN, "--json"))
    assert report["difference"] == pytest.approx(split.difference, abs=1e-5)
    assert len(report["contributions"]) == len(split.contributions)
    said = glassformer("explain", "logits", masked, CLEAN, "--rows", 3)
    assert split.strongest[0].name in said and f"{split.strongest[0].value:.4f}" in said


def test_patch(masked: Path, model: gf.Model) -> None:
    result = patching_sweep(model, CLEAN, CORRUPTED, site="head")
    words = ("explain", "patch", masked, CLEAN, CORRUPTED, "--site", "head")
    report = json.loads(glassformer(*words, "--json"))
    assert report["recovered"][0] == pytest.approx(result.recovered[0].tolist(), abs=1e-4)
    assert "head 0" in glassformer(*words)
    assert "layer 0" in glassformer("explain", "patch", masked, CLEAN, CORRUPTED)


def test_circuit(masked: Path, model: gf.Model, tmp_path: Path) -> None:
    circuit = edge_effects(model, CLEAN, CORRUPTED, steps=2).circuit(9)
    words = ("explain", "circuit", masked, CLEAN, CORRUPTED, "--edges", 9, "--steps", 2)
    report = json.loads(glassformer(*words, "--json", "--dot", tmp_path / "circuit.dot"))
    assert report["faithfulness"] == pytest.approx(circuit.faithfulness, abs=1e-4)
    assert report["edges"][0]["from"] == str(circuit.edges[0].writer)
    assert (tmp_path / "circuit.dot").read_text().startswith("digraph")
    assert "9 of " in glassformer(*words)


def test_input(masked: Path, model: gf.Model) -> None:
    result = input_attribution(model, CLEAN, method="occlusion")
    words = ("explain", "input", masked, CLEAN, "--method", "occlusion")
    report = json.loads(glassformer(*words, "--json"))
    assert report["scores"]["encoder"] == pytest.approx(result.scores["encoder"].tolist(), abs=1e-5)
    assert "completeness gap" in glassformer(*words)
    said = glassformer("explain", "input", masked, CLEAN, "--method", "attention_rollout")
    assert "completeness gap –" in said


def test_steer_lens_and_probe(masked: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("the cat sat on the mat.\nthe mat sat.\n")
    two.write_text("on the mat.\nthe the the.\n")
    steer, lens, probe = (tmp_path / f"{name}.safetensors" for name in ("steer", "lens", "probe"))
    kinds = ("--towards", one, "--away", two, "--layer", 0, "--strength", 4, "--out", steer)
    report = json.loads(glassformer("explain", "steer", masked, CLEAN, *kinds, "--json"))
    assert report["before"] != report["after"] and SteeringVector.load(steer).layer == 0
    said = glassformer("explain", "lens", masked, one, "--steps", 3, "--out", lens)
    assert "tuned lens" in said and len(TunedLens.load(lens).weight) > 0
    words = tmp_path / "words.conll"
    words.write_text("the D\ncat N\nsat V\n\n" * 8 + "on P\nthe D\nmat N\n\n" * 8)
    said = glassformer("explain", "probe", masked, words, "--out", probe)
    assert "selectivity" in said and Probe.load(probe).labels == ["D", "N", "P", "V"]
    assert Probe.load(probe).tensor in ("encoder.blocks.0.out", "encoder.blocks.1.out")


def test_steer_reads_the_text_with_the_models_own_mask(tmp_path: Path) -> None:
    """A model that calls its mask <mask>; blank lines are no texts."""
    tokenizer = train_tokenizer(["the cat sat on the mat"] * 9, "bpe", 300)
    tokenizer.backend.add_special_tokens(["<mask>"])
    config = CONFIGS["bert"].model_copy(update={"vocab_size": tokenizer.highest + 1})
    own = gf.Model(gf.build_task(config, gf.TaskConfig(kind="masked_lm")), tokenizer).eval()
    own.save(tmp_path / "model")
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("the cat\n\n")
    two.write_text("the mat\n  \n")
    kinds = ("--towards", one, "--away", two, "--layer", 0)
    words = ("explain", "steer", tmp_path / "model", "the [MASK] sat", *kinds, "--json")
    contrast = ask(own, "the [MASK] sat")
    best = predictions(own, gf.record(own, contrast.batch.tokens.tolist()), top_k=1)
    before = json.loads(glassformer(*words))["before"]
    assert before[0][0] == best.words[contrast.position][0]


def test_files_that_cannot_be_used(masked: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none" / "x"
    line = refused("explain", "circuit", masked, CLEAN, CORRUPTED, "--dot", missing)
    assert "there is no folder" in line
    one, word = tmp_path / "one.txt", tmp_path / "word.conll"
    one.write_text("the cat sat.\n\n")
    word.write_text("cat N\n")
    assert "one text" in refused("explain", "lens", masked, one, "--steps", 1)
    assert "two labels" in refused("explain", "probe", masked, word)
    refused("explain", "input", masked, CLEAN, "--steps", 1025, code=2)


def test_the_options_are_those_of_the_functions() -> None:
    assert tuple(explain.SiteName) == get_args(Site)
    assert tuple(explain.MethodName) == get_args(Method)
    assert reproduce.NAMES == NAMES
    assert reproduce.GPT2 == ("indirect_objects", "greater_than")


def test_a_model_without_a_tokenizer_reads_numbers(tmp_path: Path) -> None:
    own = heat(gf.Model(gf.build_task(CONFIGS["gpt2"], TASKS["GPT2LMHeadModel"])).eval())
    own.save(tmp_path / "model")
    split = direct_logit_attribution(own, [3, 14, 15])
    report = json.loads(glassformer("explain", "logits", tmp_path / "model", "3 14 15", "--json"))
    assert report["difference"] == pytest.approx(split.difference, abs=1e-5)
    assert "write token ids" in refused("explain", "logits", tmp_path / "model", "the cat")


def test_mistakes(masked: Path) -> None:
    line = refused("explain", "patch", masked, CLEAN, "the cat [MASK].")
    assert "tokens: write two that have the same" in line
    assert "no mask" in refused("explain", "logits", masked, "the cat.")
    assert "0 to" in refused("explain", "logits", masked, CLEAN, "--position", 99, code=2)
