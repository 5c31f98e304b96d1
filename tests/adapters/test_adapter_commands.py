"""The commands with --adapter: they compute what Python does, and the studio serves both models."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glassformer as gf
from commands import glassformer, refused
from glassformer.adapters import new_adapter, write_adapter
from glassformer.fields import AdapterConfig
from ports import free_port
from speakers import LONG, bert

LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}}
Folders = tuple[Path, Path]  # of the model and of its adapter


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    home = tmp_path_factory.mktemp("models")
    model, _ = bert("BertForSequenceClassification", home / "base", **LONG, **LABELS)
    adapter = new_adapter(model.task, model.origin, AdapterConfig(rank=2))
    for lora in adapter.loras:
        torch.nn.init.normal_(lora.b)
    adapted = adapter.apply_to(model.task)
    write_adapter(home / "polite", adapted, model.origin, adapter.config, adapter.saved)
    return home / "base", home / "polite"


def test_classify_with_an_adapter(folders: Folders) -> None:
    base, adapter = folders
    words = ("classify", base, "the cat", "--json")
    row, plain = (
        json.loads(glassformer(*each)) for each in ((*words, "--adapter", adapter), words)
    )
    expected = gf.load(base, adapter=adapter).classify("the cat")[0]
    assert row["scores"] == pytest.approx(expected.scores, abs=1e-5)
    assert row["scores"] != pytest.approx(plain["scores"], abs=1e-3)


def test_map_with_an_adapter(folders: Folders, tmp_path: Path) -> None:
    base, adapter = folders
    (tmp_path / "x.txt").write_text("the cat\nwho was on the mat\n")
    words = ("map", "classify", tmp_path / "x.txt", tmp_path / "out", "--model", base)
    glassformer(*words, "--adapter", adapter, "--device", "cpu")
    lines = (tmp_path / "out" / "part-00000.jsonl").read_text().splitlines()
    expected = gf.load(base, adapter=adapter).classify(["the cat", "who was on the mat"])
    for line, each in zip(lines, expected, strict=True):
        assert json.loads(line)["probability"] == pytest.approx(each.score, abs=1e-5)
    assert "another job began in this folder (the model has changed" in refused(*words, code=2)
    words = ("map", "tokenize", *words[2:], "--adapter", adapter)
    assert "does not change token ids" in refused(*words, code=2)


def test_embed_with_an_adapter(folders: Folders, tmp_path: Path) -> None:
    base, adapter = folders
    row = json.loads(glassformer("embed", base, "the cat", "--json", "--adapter", adapter))
    expected = gf.load(base, adapter=adapter).embed("the cat")[0]
    (vector,) = [torch.tensor(each) for each in row.values() if isinstance(each, list)]
    assert torch.allclose(vector, expected, atol=1e-5)
    assert not torch.allclose(vector, gf.load(base).embed("the cat")[0], atol=1e-3)
    assert "adapter_config.json is missing" in refused(
        "embed", base, "the cat", "--adapter", tmp_path
    )


@pytest.mark.slow
def test_the_studio_serves_the_model_and_the_adapted_one(folders: Folders) -> None:
    base, adapter = folders
    port = free_port()
    words = [str(base), "--adapter", str(adapter), "--no-open", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "glassformer", "studio", *words], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline().startswith("http://")
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        client.request("GET", "/api/models")
        text = client.getresponse().read().decode()
        client.close()
        assert '"name":"base"' in text and '"name":"base + polite"' in text
    finally:
        process.kill()
        process.communicate()
