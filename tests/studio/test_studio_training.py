"""A run of training that goes on while it is looked at."""

import json

import pytest

import glassformer as gf
import speakers
from folders import heat
from glassformer.studio.checkpoints import newest, step_of
from glassformer.studio.samples import ServedModel
from glassformer.train.state import TRAINER

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
    here = newest(folder)
    return open_studio([ServedModel("run", gf.load(here), run=folder, step=step_of(here))])


def ask(client, text=TEXT, **more):
    answer = client.post("/api/runs", json={"model": "run", "text": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["run"]


def test_two_texts_at_one_checkpoint(client):
    """Also when its model was let go in between; not at two checkpoints."""
    one = ask(client, step=10)
    for step in (20, 30, 40, 50):
        ask(client, step=step)
    two, model = ask(client, "the woman ordered", step=10), ask(client, "the woman ordered")
    way = f"/api/runs/{one}/trajectory/decoder/1?mate=1&other="
    assert client.get(way + two).json()["between"][0] < 1
    assert client.get(way + model).status_code == 400


def test_the_model_stays_when_the_run_goes_on(client, folder):
    """What is shown is of the step it was; new checkpoints can be chosen."""
    save(folder, 60)
    found = client.get("/api/models/run/training").json()
    assert found["shown"] == 50 and found["steps"][-1] == 60
    assert client.get("/api/models").json()["models"][0]["steps"] == found["steps"]


def test_the_step_of_a_result(folder):
    """The best where one was measured, else the last; unknown where nothing tells."""
    last = folder / "checkpoints" / "step-00000050"
    assert step_of(folder / "model") is None
    for facts, step in (({"step": 50}, 50), ({"step": 50, "best": 1.5, "best_step": 30}, 30)):
        (last / TRAINER).write_text(json.dumps(facts))
        assert step_of(folder / "model") == step


def test_a_checkpoint_writes_and_has_its_own_positions(client, folder):
    ask = {"model": "run", "text": TEXT, "max_new_tokens": 4}
    at = gf.load(folder / "checkpoints" / "step-00000010")
    wrote = client.post("/api/generations", json={**ask, "step": 10}).json()
    (wanted,) = at.generate(TEXT, max_new_tokens=4, logprobs=True)
    assert [each["token"] for each in wrote["steps"]] == list(wanted.ids)
    assert [each["logprob"] for each in wrote["steps"]] == pytest.approx(wanted.logprobs)
    assert client.post("/api/generations", json={**ask, "step": 11}).status_code == 400
    places = client.get("/api/positions/run/decoder?step=10").json()
    assert places["values"][3] == at.task.backbone.decoder.embedding.position.weight[3].tolist()
