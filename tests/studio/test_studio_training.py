"""A run of training that goes on while it is looked at."""

import json

import pytest
import speakers

import glassformer as gf
from folders import heat
from glassformer.studio.samples import Served

TEXT = "man ordered the"


@pytest.fixture
def folder(tmp_path):
    """Five checkpoints that differ, and losses beyond the last."""
    speakers.bytewise("GPT2LMHeadModel", tmp_path / "first")
    for step in range(10, 60, 10):
        save(tmp_path, step)
    (tmp_path / "recipe.toml").write_text("")
    lines = [json.dumps({"step": n, "loss": 9 - n / 10}) + "\n" for n in range(1, 56)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    return tmp_path


def save(folder, step):
    model = heat(gf.load(folder / "first"), seed=step)
    model.save(folder / "checkpoints" / f"step-{step:08d}")


@pytest.fixture
def client(folder, open_studio):
    model = gf.load(folder / "checkpoints" / "step-00000050")
    return open_studio([Served("run", model, run=folder)])


def ask(client, text=TEXT, **more):
    answer = client.post("/api/runs", json={"model": "0", "text": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["run"]


def test_two_texts_at_one_checkpoint(client):
    """Also when its model was let go in between; not at two checkpoints."""
    one = ask(client, step=10)
    for step in (20, 30, 40, 50):
        ask(client, step=step)
    two, model = ask(client, "the woman ordered", step=10), ask(client, "the woman ordered")
    way = f"/api/runs/{one}/way/decoder/1?mate=1&other="
    assert client.get(way + two).json()["between"][0] < 1
    assert client.get(way + model).status_code == 400
