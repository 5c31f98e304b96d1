"""Recipes with [adapter]: the adapter and a new head are trained, and PEFT opens the result."""

from __future__ import annotations

import json
import re
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from harness import at_step, live, metrics, result, signal_self
from ranks import note_parameters, noted_bytes, ranks
from safetensors.torch import load_file

import glassformer as gf
import tiny
from commands import glassformer, refused
from glassformer.errors import CheckpointError, ConfigError
from glassformer.train.evaluation import evaluate
from sampling import mostly_slow

KINDS = ("causal_lm", "masked_lm", "translation", "classification")
ADAPTER = {"rank": 3, "alpha": 6, "dropout": 0.1}


def write_run(folder: Path, kind: str, adapter: dict[str, Any], **train: Any) -> Path:
    """A small model, and a recipe that trains an adapter for it."""
    first = tiny.write_recipe(folder / "first", "masked_lm" if kind == "classification" else kind)
    gf.fit(first, out=folder / "base", changes={"train.steps": 1}).run(progress=False)
    path = tiny.write_recipe(folder / "second", kind, train={"learning_rate": 0.01, **train})
    text = path.read_text()
    start, end = text.index("[tokenizer]"), text.index("[objective]")
    lines = "".join(f"{name} = {tiny.as_toml(value)}\n" for name, value in adapter.items())
    path.write_text(
        f"init_from = {json.dumps(str(folder / 'base' / 'model'))}\n"
        f"{text[:start]}{text[end:]}\n[adapter]\n{lines}"
    )
    return path


@pytest.mark.parametrize("kind", mostly_slow(reversed(KINDS)))
def test_only_the_adapter_and_a_new_head_are_trained(kind: str, tmp_path: Path) -> None:
    recipe, base = write_run(tmp_path, kind, ADAPTER), tmp_path / "base" / "model"
    model = gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    assert not (tmp_path / "run" / "model").exists()
    tensors = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    assert all(t.any() for name, t in tensors.items() if "lora_B" in name)
    assert any("lora" not in name for name in tensors) == (kind == "classification")
    before = gf.load(base).task.state_dict()
    after = model.task.state_dict()
    same = [n for n in before if n in after and n.startswith("backbone.")]
    assert same and all(torch.equal(before[name], after[name]) for name in same)
    assert model.active == "adapter"
    card = (tmp_path / "run" / "adapter" / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^model = (gf\.load\(.+\))$", card, re.MULTILINE)
    loaded = eval(line, {"gf": gf})
    assert loaded.task.spec == model.task.spec and loaded.active == "adapter"
    with pytest.raises(CheckpointError) as error:
        gf.load(tmp_path / "run")
    assert f"with adapter = {tmp_path / 'run' / 'adapter'} (--adapter" in str(error.value)


@pytest.mark.parametrize("kind", mostly_slow(reversed(KINDS)))
def test_a_checkpoint_and_the_merged_model_compute_what_the_adapter_does(
    kind: str, tmp_path: Path
) -> None:
    recipe = write_run(tmp_path, kind, {**ADAPTER, "merge": True, "dora": True})
    merged = gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    run, base = tmp_path / "run", tmp_path / "base" / "model"
    model = gf.load(base, adapter=run / "adapter")
    assert merged.active is None
    last = gf.load(max(run.glob("checkpoints/step-*")))
    ids = [[5, 9, 7], [6, 8]]
    more = {"targets": [[5, 6], [7]]} if kind == "translation" else {}
    for other in (merged, last):
        for a, b in zip(other.logits(ids, **more), model.logits(ids, **more), strict=True):
            assert torch.allclose(a, b, atol=1e-5)
    plain = gf.load(base)
    if kind != "classification":
        assert not torch.allclose(plain.logits(ids, **more)[0], model.logits(ids, **more)[0])


@pytest.mark.parametrize(
    ("kind", "name"),
    mostly_slow(
        [
            ("classification", "AutoModelForSequenceClassification"),
            ("causal_lm", "AutoModelForCausalLM"),
            ("translation", "AutoModelForSeq2SeqLM"),
        ]
    ),
)
def test_peft_opens_what_was_trained(kind: str, name: str, tmp_path: Path) -> None:
    import peft

    recipe = write_run(tmp_path, kind, ADAPTER)
    model = gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    base, adapter = tmp_path / "base" / "model", tmp_path / "run" / "adapter"
    options: dict[str, Any] = {}
    if kind == "classification":
        options["config"] = transformers.AutoConfig.from_pretrained(adapter)
        assert [*options["config"].id2label.values()] == ["cat", "none"]
    reference = getattr(transformers, name).from_pretrained(base, **options)
    theirs = peft.PeftModel.from_pretrained(reference, adapter).eval()
    ids = torch.tensor([[5, 9, 7, 6]])
    more: dict[str, Any] = {}
    if kind == "translation":
        more, options = {"targets": [[5, 6]]}, {"decoder_input_ids": torch.tensor([[5, 6]])}
    else:
        options = {}
    with torch.no_grad():
        expected = theirs(input_ids=ids, **options).logits[0]
    assert torch.allclose(model.logits(ids.tolist(), **more)[0], expected, atol=1e-5)


SETTINGS: list[dict[str, Any]] = [{}, {"ema_decay": 0.9, "precision": "bfloat16"}]


@pytest.mark.parametrize("train", mostly_slow(reversed(SETTINGS)), ids=["average", "plain"])
@pytest.mark.parametrize("kind", mostly_slow(["classification", "causal_lm"]))
def test_a_killed_run_ends_as_if_nothing_had_happened(
    kind: str, train: dict[str, Any], tmp_path: Path
) -> None:
    recipe = write_run(tmp_path, kind, ADAPTER, save_every=2, **train)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    end = live("pretrain", recipe, "--out", whole)
    assert end.status == 0, end.said
    die = partial(at_step, 3, partial(signal_self, signal.SIGKILL))
    assert live("pretrain", recipe, "--out", cut, mischief=die).status == -9
    end = live("pretrain", recipe, "--out", cut)
    assert end.status == 0, end.said
    assert result(cut) == result(whole)
    weights = "adapter/adapter_model.safetensors"
    assert (cut / weights).read_bytes() == (whole / weights).read_bytes()


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ({"targets": ["no_such_map"]}, "adapter.targets = 'no_such_map': no linear map"),
        ({"targets": ["attention.query"]}, "are one map in this model's checkpoints"),
        ({"rank": 0}, "adapter.rank"),
        ({"lora_alpha": 8}, "did you mean"),
    ],
)
def test_a_wrong_adapter_is_named(adapter: dict[str, Any], message: str, tmp_path: Path) -> None:
    recipe = write_run(tmp_path, "causal_lm", adapter)
    with pytest.raises(ConfigError) as error:
        gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    assert message in str(error.value)


def check_same_adapter(out: Path, expected: Path, *, within: float) -> None:
    losses = [[x["loss"] for x in metrics(run) if "loss" in x] for run in (out, expected)]
    assert len(losses[0]) == 6 and losses[0] == pytest.approx(losses[1], rel=within)
    ours, theirs = (
        load_file(run / "adapter" / "adapter_model.safetensors") for run in (out, expected)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in theirs)


CONSTANT = ("--train.steps", 6, "--train.schedule", "constant")
SHARED = [
    (kind, shard)
    for shard in ("full", "none")
    for kind in ("classification", "causal_lm", "translation")
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shard"), mostly_slow(SHARED))
def test_two_processes_train_the_same_adapter(kind: str, shard: str, tmp_path: Path) -> None:
    recipe = write_run(tmp_path, kind, ADAPTER, micro_batches=2, ema_decay=0.5, save_every=2)
    words = ("--train.schedule", "constant", "--distributed.shard", shard)
    for steps in (3, 6):  # and resumed
        ends = ranks(2, recipe, tmp_path / "two", "--train.steps", steps, *words)
        assert [end.status for end in ends] == [0, 0], ends
    assert live("pretrain", recipe, "--out", tmp_path / "one", *CONSTANT).status == 0
    check_same_adapter(tmp_path / "two", tmp_path / "one", within=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dora", [False, True])
def test_four_processes_then_one_then_two_train_the_same_adapter(
    dora: bool, tmp_path: Path
) -> None:
    """Of a matrix of rank 3, one of four processes has no row."""
    adapter = {**ADAPTER, "dora": dora}
    recipe = write_run(tmp_path, "causal_lm", adapter, micro_batches=4, save_every=2)
    words, out = ("--train.schedule", "constant", "--distributed.shard", "full"), tmp_path / "run"
    for count, steps in ((4, 2), (1, 4), (2, 6)):
        if count == 1:
            ends = [live("pretrain", recipe, "--out", out, *words[:2], "--train.steps", steps)]
        else:
            ends = ranks(count, recipe, out, *words, "--train.steps", steps)
        assert [end.status for end in ends] == [0] * count, ends
    assert live("pretrain", recipe, "--out", tmp_path / "one", *CONSTANT).status == 0
    check_same_adapter(out, tmp_path / "one", within=1e-5)
    folder = out / "checkpoints" / "step-00000006"
    with pytest.raises(CheckpointError, match="saves an adapter without its model") as error:
        gf.load(folder)
    assert str(out / "adapter") in str(error.value)


@pytest.mark.slow
def test_four_processes_have_a_quarter_of_the_model_each(tmp_path: Path) -> None:
    """The model is fixed, and sharded all the same."""
    recipe = write_run(tmp_path, "causal_lm", ADAPTER, micro_batches=4, save_every=2)
    noting = partial(note_parameters, tmp_path / "bytes")
    words = ("--distributed.shard", "full")
    ends = ranks(4, recipe, tmp_path / "run", *words, everywhere=noting)
    assert [end.status for end in ends] == [0] * 4, ends
    model = gf.load(tmp_path / "base" / "model", adapter=tmp_path / "run" / "adapter")
    whole = sum(p.nbytes for p in model.task.parameters())
    shares = noted_bytes(tmp_path / "bytes")
    assert len(shares) == 4 and whole <= sum(shares) and max(shares) <= 0.35 * whole


def test_a_run_is_evaluated_with_its_adapter(tmp_path: Path) -> None:
    recipe = write_run(tmp_path, "classification", ADAPTER)
    gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    base, adapter = tmp_path / "base" / "model", tmp_path / "run" / "adapter"
    measured = json.loads(glassformer("evaluate", base, recipe, "--adapter", adapter, "--json"))
    last = [each["valid"] for each in metrics(tmp_path / "run") if "valid" in each]
    assert measured["loss"] == pytest.approx(min(each["loss"] for each in last), rel=1e-5)


@pytest.mark.parametrize("kind", mostly_slow(["classification", "causal_lm"]))
def test_a_model_is_compared_with_its_adapters(kind: str, tmp_path: Path) -> None:
    recipe = write_run(tmp_path, kind, ADAPTER)
    gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    base, adapter = tmp_path / "base" / "model", tmp_path / "run" / "adapter"
    words = ("compare", base, "--task", recipe, "--adapter", adapter, "--evaluate-only", "--json")
    said = glassformer(*words, "--out", tmp_path / "as-it-is", columns=500)
    *plain, adapted = json.loads(said)["models"]
    assert adapted["model"] == f"{base} with {adapter}"
    expected = evaluate(base, recipe, adapter=adapter)
    assert adapted["means"]["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    if kind == "classification":  # the model has no head for it
        assert not plain and "without an adapter it is for masked_lm: left out" in said.errors
    else:
        assert plain[0]["means"]["loss"] != pytest.approx(adapted["means"]["loss"], rel=1e-4)
    assert ": finished" in glassformer(*words, "--out", tmp_path / "as-it-is").errors
    said = refused(*words, "bert-tiny", "--out", tmp_path / "none", code=2)
    assert "belongs to one trained model" in said


@pytest.mark.slow
def test_runs_with_an_adapter_are_compared_on_other_data(tmp_path: Path) -> None:
    recipe, base = write_run(tmp_path, "classification", ADAPTER), tmp_path / "base" / "model"
    gf.fit(recipe, out=tmp_path / "run").run(progress=False)
    adapter, test = tmp_path / "run" / "adapter", recipe.parent / "text.tsv"
    words = ("--task", recipe, "--adapter", adapter, "--seeds", 1, "--test", test, "--json")
    models = json.loads(glassformer("compare", base, *words, "--out", tmp_path / "out"))["models"]
    assert [each["model"] for each in models] == [str(base), f"{base} with {adapter}"]
    for each, start in zip(models, (base, Path(models[1]["runs"][0]["folder"]).parent / "merged"),
                           strict=True):  # fmt: skip
        trained = Path(each["runs"][0]["folder"]) / "adapter"
        expected = evaluate(start, recipe, adapter=trained, changes={"data.valid": str(test)})
        assert each["means"]["loss"] == pytest.approx(expected["loss"], rel=1e-6)


def test_an_adapter_needs_a_model(tmp_path: Path) -> None:
    recipe = tiny.write_recipe(tmp_path, "causal_lm")
    with pytest.raises(ConfigError, match=r"\[adapter\] needs init_from"):
        gf.fit(recipe, changes={"adapter.rank": 4})
