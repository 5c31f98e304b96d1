"""A real server process with the shipped models and one of every other head; and test apps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import glassformer as gf
from glassformer.asgi.requests import loopback_hosts
from glassformer.serve.app import create_app
from glassformer.serve.host import Host, HostOptions
from glassformer.serve.state import ServeState
from serve.processes import ServerProcess, serving

SHIPPED = ("gf-encoder", "gf-decoder", "gf-en-ru")
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
HEADS: dict[str, dict[str, Any]] = {
    "classifier": {"kind": "classification", "labels": ("bad", "good"), "pooler": "tanh"},
    "reranker": {"kind": "classification", "labels": ("score",), "pooler": "tanh"},
    "tagger": {"kind": "token_classification", "labels": ("O", "B-PER")},
    "reader": {"kind": "question_answering"},
}
PORT = 8000


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def server(heads: Path) -> Iterator[ServerProcess]:
    names = [str(heads / name) for name in HEADS]
    options = ("--template", heads / "chat.jinja", "--queue-tokens", 1_000_000)
    with serving(*SHIPPED, *names, *options) as running:
        # The pipe of its log must not fill.
        threading.Thread(target=running.process.stderr.read, daemon=True).start()
        yield running


@pytest.fixture(scope="session")
def models() -> dict[str, gf.Model]:
    return {name: gf.load(name) for name in SHIPPED}


@pytest.fixture
def client() -> Iterator[Any]:
    """Makes clients of apps in this process, with hosts of these models."""
    hosts: list[Host] = []

    def make(
        *names: str, root: Path | None = None, options: HostOptions | None = None, **more: Any
    ) -> tuple[TestClient, Host]:
        host = Host({name: name for name in names}, root, options)
        hosts.append(host)
        for name in names:
            host.load(name)
        app = create_app(ServeState(host, **more), hosts=loopback_hosts(PORT))
        base = f"http://127.0.0.1:{PORT}"
        return TestClient(app, base_url=base, raise_server_exceptions=False), host

    yield make
    for host in hosts:
        host.close()
