"""A real server process with the shipped models and one of every other head; and apps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from serve.apps import clients
from serve.processes import ServerProcess, serving

SHIPPED = ("gf-encoder", "gf-decoder", "gf-en-ru")
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
HEADS: dict[str, dict[str, Any]] = {
    "classifier": {"kind": "classification", "labels": ("bad", "good"), "pooler": "tanh"},
    "reranker": {"kind": "classification", "labels": ("score",), "pooler": "tanh"},
    "tagger": {"kind": "token_classification", "labels": ("O", "B-PER")},
    "reader": {"kind": "question_answering"},
}


@pytest.fixture(scope="package")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model for each head."""
    folder = tmp_path_factory.mktemp("heads")
    encoder = gf.load("gf-encoder")
    small = encoder.config.model_copy(update={"depth": 1})
    for name, head in HEADS.items():
        task = gf.build_task(small, gf.TaskConfig(**head))
        gf.Model(task, encoder.tokenizer).eval().save(folder / name)
    (folder / "chat.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="package")
def small_server(heads: Path, models: dict[str, gf.Model]) -> Iterator[ServerProcess]:
    """The same models with one layer each, for thousands of requests."""
    for name, model in models.items():
        sizes = {"depth": 1}
        if model.config.family == "seq2seq":
            sizes["decoder_depth"] = 1
        small = model.config.model_copy(update=sizes)
        task = gf.build_task(small, model.task.spec)
        gf.Model(task, model.tokenizer).eval().save(heads / "small" / name)
    names = [*(heads / "small" / name for name in models), *(heads / name for name in HEADS)]
    with serving(*names, "--template", heads / "chat.jinja") as running:
        threading.Thread(target=running.process.stderr.read, daemon=True).start()
        yield running


@pytest.fixture(scope="package")
def server(heads: Path) -> Iterator[ServerProcess]:
    names = [str(heads / name) for name in HEADS]
    options = ("--template", heads / "chat.jinja", "--queue-tokens", 1_000_000)
    with serving(*SHIPPED, *names, *options) as running:
        # The pipe of its log must not fill.
        threading.Thread(target=running.process.stderr.read, daemon=True).start()
        yield running


@pytest.fixture(scope="package")
def models() -> dict[str, gf.Model]:
    return {name: gf.load(name) for name in SHIPPED}


@pytest.fixture
def client() -> Iterator[Any]:
    """Makes clients of apps in this process, with hosts of these models."""
    with clients() as make:
        yield make
