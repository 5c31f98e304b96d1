"""Neurons: every number is the recorder's, for all architectures; a unit off adds nothing."""

import pytest
import torch
from drawings import IDS, KINDS, read, small
from slides import check

import glassformer as gf
from glassformer.errors import ConfigError
from glassformer.glass import units_off
from glassformer.studio.samples import ServedModel
from glassformer.studio.views.neurons import STRONGEST


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_the_recorders(kind, drawn):
    model = small(kind)
    client, row, trace = drawn(model)
    for side, tokens in row["tokens"]["queries"].items():
        (stack,) = (each for each in row["stacks"] if each["name"] == side)
        for layer in range(stack["layers"]):
            hidden = trace[f"{side}.blocks.{layer}.mlp.hidden"].double()
            path = f"{row['run']}/neurons/{side}/{layer}"
            shown = read(client, path)
            assert shown["width"] == hidden.shape[1]
            assert shown["gated"] == model.config.gated
            assert len(shown["strongest"]) == len(tokens) == len(hidden)
            best = hidden.abs().topk(STRONGEST).values.tolist()
            for units, values, sizes in zip(shown["strongest"], hidden, best, strict=True):
                told = [each["value"] for each in units]
                assert list(map(abs, told)) == pytest.approx(sizes, rel=1e-4, abs=1e-6)
                theirs = values[[each["unit"] for each in units]].tolist()
                assert told == pytest.approx(theirs, rel=1e-4, abs=1e-6)
            unit = shown["strongest"][-1][0]["unit"]
            told = read(client, f"{path}/{unit}")["values"]
            assert told == pytest.approx(hidden[:, unit].tolist(), rel=1e-4, abs=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "marian", "t5"])
def test_units_are_the_mlps_own(kind, drawn):
    """By hand, from the MLP's input: gated and plain; W_2 of them is what the MLP adds."""
    model = small(kind)
    _, row, trace = drawn(model)
    for side in row["tokens"]["queries"]:
        mlp = getattr(model.task.backbone, side).blocks[0].mlp
        block = f"{side}.blocks.0"
        post = model.config.norm_place == "post"
        before = "cross" if f"{block}.cross_norm.out" in trace else "attention"
        x = trace[f"{block}.{before}_norm.out" if post else f"{block}.mlp_norm.out"]
        act = mlp.activation
        by_hand = act(mlp.up(x)) if mlp.gate is None else act(mlp.gate(x)) * mlp.up(x)
        hidden = trace[f"{block}.mlp.hidden"]
        assert torch.allclose(hidden, by_hand, atol=1e-5)
        assert torch.allclose(mlp.down(hidden), trace[f"{block}.mlp.out"], atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "marian"])
def test_a_unit_off_adds_nothing(kind, open_studio):
    """What the MLP adds loses its column of W_2; the formulas of Numbers still hold."""
    model = small(kind, torch.float64)
    client = open_studio([ServedModel("it", model)])
    side = "encoder" if kind in ("bert", "marian") else "decoder"
    ask = {"model": "it", "text": " ".join(map(str, IDS))}
    before = client.post("/api/runs", json=ask).json()
    top = read(client, f"{before['run']}/neurons/{side}/0")["strongest"]
    unit, value = top[2][0]["unit"], top[2][0]["value"]
    off = {"units": [[side, 0, unit]]}
    row = client.post("/api/runs", json={**ask, **off}).json()
    assert row["run"] != before["run"]
    given = IDS
    if "decoder" in row["tokens"]["queries"] and side == "encoder":
        given = (IDS, [int(each["piece"]) for each in row["tokens"]["queries"]["decoder"]])
    trace = gf.record(model, given, edit=units_off([(side, 0, unit)]))
    plain = gf.record(model, given)
    name = f"{side}.blocks.0.mlp.out"
    column = getattr(model.task.backbone, side).blocks[0].mlp.down.weight[:, unit]
    lost = plain[name][2] - trace[name][2]
    assert torch.allclose(lost, value * column, rtol=1e-4, atol=1e-5) and lost.norm() > 0.1
    assert read(client, f"{row['run']}/neurons/{side}/0/{unit}")["values"] == [0.0] * len(IDS)
    assert "on" in check(model, client, "it", row, trace, units=[(side, 0, unit)])
    code = client.get(f"/api/runs/{row['run']}/python").json()["code"]
    assert f"units_off([('{side}', 0, {unit})])" in code and "import units_off" in code


def test_what_it_refuses(client, run):
    row = run(0)
    for path, line in {
        "neurons/decoder/0": "no layer 0 of its decoder", "neurons/encoder/9": "no layer 9",
        "neurons/encoder/0/64": "units 0 to 63",
    }.items():  # fmt: skip
        answer = client.get(f"/api/runs/{row['run']}/{path}")
        assert answer.status_code == 400 and line in answer.json()["error"], answer.text
    for unit, line in {
        ("decoder", 0, 0): "no decoder", ("encoder", 2, 0): "no unit 0 in layer 2",
        ("encoder", 0, 64): "no unit 64",
    }.items():  # fmt: skip
        ask = {"model": "toy-encoder", "text": "the cat sat", "units": [unit]}
        answer = client.post("/api/runs", json=ask)
        assert answer.status_code == 400 and line in answer.json()["error"], answer.text


def test_units_off_names_what_is_wrong(served):
    with pytest.raises(ConfigError, match="unit 99: this MLP has units 0 to 63"):
        gf.record(served[0].model, "the cat sat", edit=units_off([("encoder", 0, 99)]))


def test_traces_with_and_without_units(client, served):
    send = {"content-type": "application/octet-stream"}
    for keep, status in (("*", 200), ("*.weights", 400)):
        trace = gf.record(served[1].model, "man ordered the", keep=keep)
        upload = client.post("/api/traces", content=trace.to_bytes(), headers=send).json()["model"]
        models = client.get("/api/models").json()["models"]
        text = next(each for each in models if each["id"] == upload)["samples"][0]["text"]
        row = client.post("/api/runs", json={"model": upload, "text": text}).json()
        answer = client.get(f"/api/runs/{row['run']}/neurons/decoder/0")
        assert answer.status_code == status
    assert "holds no units" in answer.json()["error"]
    bad = gf.record(served[1].model, "man ordered the")
    wrong = {**bad, "decoder.blocks.0.mlp.hidden": torch.zeros(2, 5)}
    data = gf.Trace(wrong, bad.tokens, bad.source_tokens, bad.config).to_bytes()
    answer = client.post("/api/traces", content=data, headers=send)
    assert answer.status_code == 400 and "mlp.hidden is [2, 5]" in answer.json()["error"]
