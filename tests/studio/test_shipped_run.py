"""The training run that ships with the package: small, complete, and it learns something."""

import pytest

import glassformer as gf
from glassformer.cli.studio import serve
from glassformer.pretrained import shipped, shipped_runs
from glassformer.studio.checkpoints import at_step

STEPS = [10, 50, 200, 1000]


@pytest.fixture(scope="module")
def folder():
    return shipped_runs()["gf-shakespeare"]


def test_it_is_small_and_no_model_of_its_own(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 450_000
    assert folder.name not in shipped()
    assert "public domain" in (folder / "README.md").read_text("utf-8")
    texts = [path.read_text("utf-8") for path in files if path.suffix != ".safetensors"]
    assert not any("root =" in text or "/home" in text for text in texts)


def test_the_studio_opens_it_by_name(open_studio):
    (served,) = serve(["gf-shakespeare"], "cpu")
    assert served.name == "gf-shakespeare" and served.step == 1000
    client = open_studio([served])
    (row,) = client.get("/api/models").json()["models"]
    assert row["steps"] == STEPS and row["samples"][0]["find"] == "induction"
    progress = client.get("/api/models/gf-shakespeare/training").json()
    assert progress["ended"] and progress["steps"] == STEPS and progress["shown"] == 1000
    assert progress["losses"][0][1] > 3.5 and progress["losses"][-1][1] < 1.9
    assert progress["evaluations"][-1][1] < 1.9 and len(progress["evaluations"]) == 20
    for sample in row["samples"]:  # also those that would be too long for 64 characters
        ask = {"model": "gf-shakespeare", "text": sample["text"], "step": 10}
        assert client.post("/api/runs", json=ask).status_code == 200


def test_it_learns_to_spell(folder):
    """After q comes u: at first it does not know, at the end it does."""
    chances = []
    for step in STEPS:
        model = gf.load(at_step(folder, step))
        logits = gf.record(model, "ROMEO:\nO, my q")["logits"][-1]
        chances.append(float(logits.float().softmax(-1)[model.tokenizer.id("u")]))
    assert chances == sorted(chances) and chances[0] < 0.1 and chances[-1] > 0.9
