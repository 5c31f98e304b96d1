"""Model: every number of the drawing is the recorder's, for all architectures."""

import numpy as np
import pytest
import torch
from drawings import KINDS, read, small
from torch.nn.functional import adaptive_max_pool2d

import glassformer as gf
from folders import tiny
from glassformer.model import Look
from glassformer.studio.jobs import Cancelled, JobMonitor
from glassformer.studio.runs import record_run
from glassformer.studio.schemas import RunRequest
from glassformer.studio.views.encode import THUMBNAIL
from glassformer.studio.views.network import network_guesses


def places(post, layer, cross):
    """The tensors of a layer: after each part, and what the part adds."""
    inside = [("attention", "attention"), *([("cross", "cross")] if cross else [])]
    ending = "_norm.out" if post else "_sum"
    block = f"blocks.{layer}."
    yield from ((f"{block}{each}{ending}", f"{block}{part}.out") for each, part in inside)
    yield f"{block}out", f"{block}mlp.out"


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_is_the_recorders(kind, drawn):
    model = small(kind)
    config = model.task.backbone.config
    client, row, trace = drawn(model)
    stacks = read(client, f"{row['run']}/network")["stacks"]
    assert [each["name"] for each in stacks] == list(row["tokens"]["queries"])
    for stack in stacks:
        side, depth = stack["name"], max(each["layer"] or 0 for each in stack["points"]) + 1
        cross = config.family == "seq2seq" and side == "decoder"
        names = [("embedding.out", None)]
        for layer in range(depth):
            names += places(config.norm_place == "post", layer, cross)
        assert len(names) == len(stack["points"]) == len(stack["norm"]) == len(stack["added"])
        for (point, part), norms, added in zip(names, stack["norm"], stack["added"], strict=True):
            length = trace[f"{side}.{point}"].double().norm(dim=-1).tolist()
            assert norms == pytest.approx(length, rel=1e-4), (kind, point)
            if part is None:
                assert added is None
            else:
                length = trace[f"{side}.{part}"].double().norm(dim=-1).tolist()
                assert added == pytest.approx(length, rel=1e-4), (kind, part)
    for stack in row["stacks"]:
        check_attention(client, row, trace, stack)


def check_attention(client, row, trace, stack):
    part = "cross" if stack["name"] == "cross" else "attention"
    side = "encoder" if stack["name"] == "encoder" else "decoder"
    names = [f"{side}.blocks.{layer}.{part}.weights" for layer in range(stack["layers"])]
    means = torch.stack([trace[name].double().mean(0) for name in names])
    answer = client.get(f"/api/runs/{row['run']}/mean/{stack['name']}")
    size = [min(each, THUMBNAIL) for each in means.shape[1:]]
    small = adaptive_max_pool2d(means, size).numpy()
    pictures = np.frombuffer(answer.content, np.uint8).reshape(small.shape)
    assert np.abs(pictures / 255 - small).max() <= 0.5 / 255 + 1e-5
    for query in (0, stack["rows"] - 1):
        shown = read(client, f"{row['run']}/mean/{stack['name']}/{query}")["weights"]
        assert np.abs(np.array(shown) - means[:, query].numpy()).max() < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_guesses_are_the_lens_of_each_layer(kind, drawn):
    """By hand: final norm, head, softmax; at the last layer it is the model's own prediction."""
    model = small(kind)
    client, row, trace = drawn(model)
    if not model.task.spec.traits.predicts.endswith(("next_token", "masked_tokens")):
        answer = client.get(f"/api/runs/{row['run']}/guesses")
        assert answer.status_code == 400 and "no language model head" in answer.json()["error"]
        return
    side = list(row["tokens"]["queries"])[-1]
    shown = read(client, f"{row['run']}/guesses")
    norm = getattr(model.task.backbone, side).norm
    for point, guesses in zip(shown["points"], shown["guesses"], strict=True):
        layer = point["layer"]
        name = "embedding.out" if layer is None else f"blocks.{layer}.out"
        x = trace[f"{side}.{name}"]
        chances = model.task.lm_logits(x if norm is None else norm(x, Look()), Look()).softmax(-1)
        best, ids = chances.max(-1)
        assert [each["id"] for each in guesses] == ids.tolist()
        assert [each["p"] for each in guesses] == pytest.approx(best.tolist(), abs=1e-4)
    end = trace["logits"].softmax(-1).max(-1)
    assert [each["id"] for each in shown["guesses"][-1]] == end.indices.tolist()


def test_long_texts_have_small_pictures_and_exact_rows(drawn):
    model = tiny("decoder", max_length=120)
    client, row, trace = drawn(model, [1 + n % 9 for n in range(100)])
    assert client.get(f"/api/runs/{row['run']}/mean/decoder").headers["X-Shape"].endswith("48,48")
    (shown, *_) = read(client, f"{row['run']}/mean/decoder/99")["weights"]
    mean = trace["decoder.blocks.0.attention.weights"].mean(0)[99]
    assert shown == pytest.approx(mean.tolist(), abs=1e-6)


def test_what_it_refuses(client, run, open_studio):
    row = run(0)
    for path, line in {
        "mean/encoder/99": "this text has tokens 0 to 8", "mean/decoder": "no weights",
    }.items():  # fmt: skip
        answer = client.get(f"/api/runs/{row['run']}/{path}")
        assert answer.status_code == 400 and line in answer.json()["error"], answer.text
    assert client.get("/api/runs/r99/network").status_code == 404


def test_a_trace_alone_has_norms_and_no_guesses(client, served):
    trace = gf.record(served[1].model, "man ordered the")
    send = {"content-type": "application/octet-stream"}
    upload = client.post("/api/traces", content=trace.to_bytes(), headers=send).json()["model"]
    models = client.get("/api/models").json()["models"]
    text = next(each for each in models if each["id"] == upload)["samples"][0]["text"]
    row = client.post("/api/runs", json={"model": upload, "text": text}).json()
    norms = read(client, f"{row['run']}/network")["stacks"][0]["norm"]
    assert norms[0] == pytest.approx(trace["decoder.embedding.out"].norm(dim=-1).tolist())
    answer = client.get(f"/api/runs/{row['run']}/guesses")
    assert answer.status_code == 400 and "needs the model's weights" in answer.json()["error"]


def test_guesses_stop_when_nobody_waits():
    model = tiny("decoder")
    run = record_run(model, RunRequest(model="0", text="1 2 3"), "r1", JobMonitor())
    left = JobMonitor()
    left.stopped.set()
    with pytest.raises(Cancelled):
        network_guesses(run, left)
