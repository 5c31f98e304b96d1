"""What if? The numbers of a changed run are those of `record`, and its Python gives them again."""

import json

import numpy as np
import pytest
import torch
from drawings import TOYS

import glassformer as gf
from glassformer.cli.studio import serve
from glassformer.errors import ConfigError, InputError
from glassformer.glass import patched, put, swapped, word_id

from speakers import bytewise  # isort: skip
from sampling import every_nth, mostly_slow

TEXT = "I deposited [MASK] in the bank."
CHANGES = {
    "all": (0, {"off": [["encoder", 0, 0]], "swaps": [["encoder", 1, "the"]],
                "patches": [["encoder", 1, 3, 2], ["encoder", 0, 3, 4]],
                "other": "I ate the apple."}),
    "another word": (0, {"swaps": [["encoder", 7, "!"], ["encoder", 2, "ate"]]}),
    "a patch": (0, {"patches": [["encoder", 0, 3, 5]], "other": "I sat by the river bank."}),
    "the next word": (1, {"swaps": [["decoder", 1, "woman"]]}),
    "a translation": (2, {"swaps": [["encoder", 1, "dog"]], "off": [["cross", 0, 1]],
                          "patches": [["decoder", 0, 1, 1]], "other": "The man lay on the sofa"}),
}  # fmt: skip


def bytes_of(answer):
    shape = [int(n) for n in answer.headers["x-shape"].split(",")]
    return np.frombuffer(answer.content, np.uint8).reshape(shape)


@pytest.mark.parametrize("name", mostly_slow(CHANGES))
def test_the_python_does_the_same(client, run, served, name):
    """What is shown is executed: weights and chances are those of the page."""
    number, changes = CHANGES[name]
    row = run(number, **changes)
    code = client.get(f"/api/runs/{row['run']}/python").json()["code"]
    names = {}
    exec(code, names)
    trace, model = names["trace"], names["model"]
    for stack in row["stacks"]:
        here = "decoder.blocks.0.cross" if stack["name"] == "cross" else None
        here = here or f"{stack['name']}.blocks.0.attention"
        found = bytes_of(client.get(f"/api/runs/{row['run']}/head/{stack['name']}/0/1"))
        wanted = (trace[f"{here}.weights"][1] * 255).round().to(torch.uint8).numpy()
        assert np.array_equal(found, wanted)
    chances = trace["logits"].float().softmax(-1)
    for place in row["predictions"]["at"]:
        best = chances[place["token"]].topk(5).values.tolist()
        assert [each["p"] for each in place["top"]] == pytest.approx(best, abs=1e-6)
    plain = run(number)
    assert row["predictions"]["at"] != plain["predictions"]["at"]
    assert model.task.spec.kind == served[number].model.task.spec.kind


def test_the_python_opens_the_folder(open_studio, tmp_path):
    """As it was given, whatever name is shown; of a run, the model or the checkpoint."""
    model, _ = bytewise("GPT2LMHeadModel", tmp_path / "once")
    home, training = tmp_path / "home" / "model", tmp_path / "run"
    model.save(home)
    for step in (10, 20):
        with torch.no_grad():
            for each in model.parameters():
                each.mul_(1.5)
        model.save(training / "checkpoints" / f"step-{step:08d}")
    for name in ("recipe.toml", "metrics.jsonl"):
        (training / name).write_text("")
    client = open_studio(serve([str(home), str(training)], "cpu"))
    seen = set()
    for name, more in (("home-model", {}), ("run", {}), ("run", {"step": 10})):
        ask = {"model": name, "text": "the cat", **more}
        run = client.post("/api/runs", json=ask).json()["run"]
        names = {}
        exec(client.get(f"/api/runs/{run}/python").json()["code"], names)
        weights = names["trace"]["decoder.blocks.1.attention.weights"][1]
        found = bytes_of(client.get(f"/api/runs/{run}/head/decoder/1/1"))
        assert np.array_equal(found, (weights * 255).round().to(torch.uint8).numpy())
        seen.add(found.tobytes())
    assert len(seen) == 3


def test_another_word_is_another_text(run, served):
    """Swapped inside or written so from the start: the same."""
    inside = run(0, swaps=[["encoder", 2, "ate"], ["encoder", 6, "apple"]])
    written = run(0, text="I ate [MASK] in the apple.")
    assert inside["predictions"] == written["predictions"]
    texts = [
        [token["text"] for token in each["tokens"]["queries"]["encoder"]]
        for each in (inside, written)
    ]
    assert texts[0] == texts[1]
    masked = run(0, swaps=[["encoder", 6, "[MASK]"]])
    assert [each["token"] for each in masked["predictions"]["at"]] == [3, 6]
    filled = run(0, swaps=[["encoder", 3, "money"]])
    assert [each["token"] for each in filled["predictions"]["at"]] == [3]  # still asked: to compare


def test_a_patch_of_the_same_text_changes_nothing(run):
    plain, row = run(0), run(0, patches=[["encoder", 0, 3, 3]], other=TEXT)
    for one, two in zip(row["predictions"]["at"], plain["predictions"]["at"], strict=True):
        assert [each["p"] for each in one["top"]] == pytest.approx(
            [each["p"] for each in two["top"]], rel=1e-5
        )


def test_the_difference(client, run, served):
    """128 is none; each byte is what lies between the weights."""
    one, two = run(0), run(0, off=[["encoder", 0, 1]])
    pair = f"/api/difference/{one['run']}/{two['run']}"
    model = served[0].model
    first = gf.record(model, TEXT)["encoder.blocks.1.attention.weights"]
    off = {"encoder.blocks.0.attention.mixed": gf.ablate(1)}
    second = gf.record(model, TEXT, edit=off)["encoder.blocks.1.attention.weights"]
    wanted = (128 + ((second - first) * 127).round()).to(torch.uint8).numpy()
    assert np.array_equal(bytes_of(client.get(f"{pair}/head/encoder/1/2")), wanted[2])
    assert (bytes_of(client.get(f"{pair}/head/encoder/0/2")) == 128).all()
    moved = client.get(f"{pair}/changes/encoder").json()["moved"]
    share = ((second - first).abs().sum(-1).mean(-1) / 2).tolist()
    assert moved[0] == [0, 0, 0, 0] and moved[1] == pytest.approx(share, abs=1e-6)
    longer = run(0, text="I sat by the river [MASK] .. .")
    refused = client.get(f"/api/difference/{one['run']}/{longer['run']}/head/encoder/0/0")
    assert refused.status_code == 400 and "the same shape on both sides" in refused.json()["error"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"swaps": [["encoder", 99, "the"]]}, "tokens 0 to 8"),
        ({"swaps": [["encoder", -1, "the"]]}, "tokens 0 to 8"),
        ({"swaps": [["decoder", 1, "the"]]}, "no decoder"),
        ({"swaps": [["encoder", 1, "zebra"]]}, "does not know"),
        ({"swaps": [["encoder", 1, "the cat"]]}, "2 tokens"),
        ({"swaps": [["encoder", 1, ""]]}, "tokens here"),
        ({"swaps": [["cross", 1, "the"]]}, "swaps"),
        ({"swaps": [["encoder", 1, "the"]] * 65}, "swaps"),
        ({"patches": [["encoder", 0, 1, 1]]}, "the other text"),
        ({"patches": [["encoder", 9, 1, 1]], "other": "the cat"}, "blocks.9"),
        ({"patches": [["encoder", 0, 1, 99]], "other": "the cat"}, "token 99"),
        ({"patches": [["encoder", 0, 99, 1]], "other": "the cat"}, "token 99"),
        ({"patches": [["encoder", 0, 1, 1]], "other": "the " * 40}, "shorten"),
        ({"step": 5}, "no such checkpoint"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be(client, changes, line):
    found = client.post("/api/runs", json={"model": "toy-encoder", "text": TEXT, **changes})
    assert found.status_code == 400 and line in found.json()["error"], found.text


def test_edits_from_python(served):
    model = served[0].model
    assert word_id(model, "bank") == word_id(model, "Bank")
    with pytest.raises(InputError, match="does not know"):
        swapped(model, "encoder", {1: "zebra"})
    with pytest.raises(ConfigError, match="no token embedding there"):
        swapped(model, "decoder", {1: "bank"})
    with pytest.raises(ConfigError, match=r"shape \[3\]"):
        gf.record(model, TEXT, edit={"encoder.blocks.0.out": put({1: torch.zeros(3)})})
    other = gf.record(model, "I ate the apple.", keep="*.out")
    edit = patched(other, "encoder", [(1, 2, 4)])
    found = gf.record(model, TEXT, edit=edit)["encoder.blocks.1.out"]
    assert torch.equal(found[2], other["encoder.blocks.1.out"][4])


def encoder():
    return TOYS[0].model


def trace_with(**changes):
    trace = gf.record(encoder(), TEXT, keep="*.weights")
    tensors = {**trace.tensors, **changes.pop("tensors", {})}
    about = {"tokens": trace.tokens, "source_tokens": [], "config": trace.config, **changes}
    return gf.Trace(tensors, **about)


WEIGHTS = "encoder.blocks.0.attention.weights"


def header_with(**changes):
    """A trace whose header says something else."""
    data = trace_with().to_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(json.loads(data[8 : 8 + size]) | changes).encode()
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def empty(dtype, *shape):
    return header_with(empty={"dtype": dtype, "shape": shape, "data_offsets": [0, 0]})


WRONG = {
    "shape": lambda: trace_with(tensors={WEIGHTS: torch.zeros(4, 9, 8)}).to_bytes(),
    "dimensions": lambda: trace_with(tensors={WEIGHTS: torch.zeros(9)}).to_bytes(),
    "whole numbers": lambda: trace_with(tensors={WEIGHTS: torch.zeros(4, 9, 9).int()}).to_bytes(),
    "no numbers": lambda: trace_with(tensors={WEIGHTS: torch.zeros(4, 9, 9).log()}).to_bytes(),
    "tokens": lambda: trace_with(tokens=["a"]).to_bytes(),
    "no weights": lambda: gf.Trace({"x": torch.zeros(2)}, ["a"]).to_bytes(),
    "cut": lambda: trace_with().to_bytes()[:-1],
    "empty": lambda: b"",
    "a long header": lambda: (1 << 62).to_bytes(8, "little") + b"{}",
    "JSON": lambda: json.dumps({"tokens": []}).encode(),
    "another file": lambda: b"PK\x03\x04" + bytes(100),
    "small numbers": lambda: trace_with(
        tensors={WEIGHTS: torch.zeros(4, 9, 9).to(torch.float8_e4m3fn)}
    ).to_bytes(),
    "nothing read": lambda: trace_with(
        tokens=[], tensors={f"encoder.blocks.{i}.attention.weights": torch.zeros(4, 0, 0)
                            for i in (0, 1)}
    ).to_bytes(),
    "vectors of another text": lambda: trace_with(
        tensors={"encoder.blocks.0.out": torch.zeros(8, 16)}
    ).to_bytes(),
    "vectors as wide as they like": lambda: trace_with(
        tensors={f"encoder.blocks.{i}.out": torch.zeros(9, 16 + i) for i in (0, 1)}
    ).to_bytes(),
    "vectors of a stack without weights": lambda: trace_with(
        tensors={f"decoder.blocks.{i}.out": torch.zeros(9 + i, 16) for i in (0, 1)}
    ).to_bytes(),
    "a list for a vector": lambda: trace_with(
        tensors={"encoder.blocks.0.out": torch.tensor(1.0)}
    ).to_bytes(),
    "a layer is missing": lambda: gf.record(
        encoder(), TEXT, keep="encoder.blocks.1.attention.weights"
    ).to_bytes(),
    "lists of numbers": lambda: trace_with(tokens=[1] * 9).to_bytes(),
    "metadata is null": lambda: header_with(__metadata__=None),
    "metadata of numbers": lambda: header_with(__metadata__={"format": 1}),
    **{f"numbers of {dtype}": lambda dtype=dtype: empty(dtype, 0)
       for dtype in ("F4", "F8_E8M0", "F6_E2M3", "F6_E3M2", "O")},
    "no numbers, 2^62 times": lambda: empty("F32", 0, 1 << 62),
    "no numbers, 2^63 times": lambda: empty("I64", 0, 1 << 63),
    "sizes that wrap around": lambda: empty("F32", 1 << 33, 0, 1 << 33),
}  # fmt: skip


@pytest.mark.parametrize("name", every_nth(WRONG, 4))
def test_a_file_that_is_no_trace(client, name):
    send = {"content-type": "application/octet-stream"}
    found = client.post("/api/traces", content=WRONG[name](), headers=send)
    assert found.status_code == 400 and found.json()["error"].isprintable(), found.text
    assert len(client.get("/api/models").json()["models"]) == 3


def test_a_trace_stands_among_the_models(client):
    send = {"content-type": "application/octet-stream"}
    model = client.post("/api/traces", content=trace_with().to_bytes(), headers=send).json()[
        "model"
    ]
    row = client.get("/api/models").json()["models"][-1]
    assert row["id"] == model and row["kind"] == "trace"
    ask = {"model": model, "text": row["samples"][0]["text"], "second": None, "off": []}
    run = client.post("/api/runs", json=ask).json()
    assert run["run"] == model and run["predictions"]["kind"] == "none"
    assert client.get(f"/api/runs/{model}/measures").status_code == 200
    found = client.get(f"/api/runs/{model}/row/encoder/0/1/2").json()
    assert found["scores"] == [] and sum(found["weights"]) == pytest.approx(1)
    for path in ("numbers/encoder/0/0/0", "head/encoder/0/0?view=value", "lens"):
        assert client.get(f"/api/runs/{model}/{path}").status_code == 400
    for change in ({"off": [["encoder", 0, 0]]}, {"text": "the cat"}):
        assert client.post("/api/runs", json={**ask, **change}).status_code == 400
    assert client.post("/api/runs", json={**ask, "model": "r1"}).status_code == 404


def test_a_trace_stays_when_many_texts_are_run(client, run):
    send = {"content-type": "application/octet-stream"}
    answer = client.post("/api/traces", content=trace_with().to_bytes(), headers=send)
    for count in range(1, 19):
        run(0, text="the " * count)
    assert client.get("/api/models").json()["models"][-1]["id"] == answer.json()["model"]
    assert client.get(f"/api/runs/{answer.json()['model']}/measures").status_code == 200


def test_only_a_trace_may_be_large(client):
    big = bytes(1 << 20)
    send = {"content-type": "application/octet-stream"}
    assert client.post("/api/runs", content=big, headers=send).status_code == 415
    json_too = {"content-type": "application/json"}
    assert client.post("/api/runs", content=big, headers=json_too).status_code == 413
    assert client.post("/api/traces", content=big, headers=json_too).status_code == 415
    assert client.post("/api/traces", content=big, headers=send).status_code == 400


@pytest.mark.parametrize(
    "told",
    [
        {"layer": "a"}, {"head": 1.5}, {"layer": None}, {"head": -1}, {"height": "9px\" onload=x"},
        {"height": -1}, {"theme": "blue"}, {"weights": "value"}, {"layer": 2},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_view_cannot_show_is_one_line(served, told):
    (name,) = told
    with pytest.raises(ConfigError) as refused:
        trace_with().view("head", **told)
    line = str(refused.value)
    assert name in line and str(*told.values()) in line and "\n" not in line


def test_the_height_of_a_view(served):
    assert "height: 300px" in trace_with().view(height=np.int64(300))._repr_html_()
