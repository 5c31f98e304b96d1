"""What bounds a request: deadlines, clients that leave or stop reading, budgets, and errors."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.asgi import server as asgi_server
from glassformer.asgi.requests import loopback_hosts
from glassformer.serve.dialects.openai import EventStream
from glassformer.serve.keys import read_keys
from glassformer.serve.logs import JsonLines
from glassformer.serve.work import Work
from serve.apps import clients

SECRET = "a-secret-of-enough-characters"
KEYS = f"""
[alice]
key = "{SECRET}"
admin = true
[bob]
key = "bob-{SECRET}"
tokens_per_minute = 100
"""
STORY = {"model": "gf-decoder", "prompt": "Once", "max_tokens": 5, "temperature": 0}


@pytest.fixture(scope="module")
def shared(heads: Path) -> Iterator[Any]:
    """A client of one app for several tests, and its host."""
    with clients() as make:
        http, host = make(
            "gf-decoder", "gf-encoder", root=heads, template="{{ messages[0].content }}"
        )
        for name in ("classifier", "reranker"):
            host.load(name)
        yield http, host


def as_client(name: str = "") -> dict[str, str]:
    return {"authorization": f"Bearer {name}{SECRET}"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_holds_though_the_model_is_busy(
    shared, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    http, host = shared
    scheduler, go = host.models["gf-decoder"].scheduler, threading.Event()
    drop = scheduler._drop
    monkeypatch.setattr(scheduler, "_drop", lambda: drop() if go.wait(60) else 0)
    try:
        late = {"x-request-timeout": "0.1"}
        answer = http.post("/v1/completions", json={**STORY, "stream": stream}, headers=late)
    finally:
        go.set()
    assert "deadline" in answer.text and answer.status_code == (200 if stream else 504)


def test_a_stream_whose_client_left_before_it_began_ends() -> None:
    async def never() -> Any:
        yield "a"

    async def leave() -> None:
        work = Work("c", 0.0)

        async def gone(*_: object) -> Any:
            raise OSError

        with pytest.raises(BaseException):  # noqa: B017 - whatever the web framework makes of it
            await EventStream(never(), work)({"type": "http"}, gone, gone)
        assert work.cancelled

    asyncio.run(leave())


def test_a_server_that_is_stopped_refuses_at_once(client) -> None:
    http, host = client("gf-encoder")
    running = asgi_server.server(http.app, on_exit=host.drain)
    running.handle_exit(signal.SIGTERM, None)
    assert running.should_exit
    refused = http.post("/embed", json={"inputs": "a"})
    assert refused.status_code == 503 and http.get("/ready").status_code == 503


def test_a_client_that_stops_reading_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi_server, "WRITE_SECONDS", 0.05)
    left = threading.Event()

    async def large(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            body = {"type": "http.response.body", "body": b" " * (1 << 24), "more_body": True}
            await send(body)
            await receive()
            if (await receive())["type"] == "http.disconnect":
                left.set()

    listening = asgi_server.listen(0)
    running = asgi_server.server(large)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    with socket.create_connection(listening.getsockname()) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert left.wait(60)
    running.should_exit = True
    thread.join()
    listening.close()


def test_a_client_that_has_just_connected_is_answered_by_a_server_that_stops() -> None:
    async def small(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"answer"})

    listening = asgi_server.listen(0)
    running = asgi_server.server(small)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    address = listening.getsockname()
    with socket.create_connection(address) as new, socket.create_connection(address):  # one idle
        while len(running.server_state.connections) < 2:
            time.sleep(0.01)
        connections = list(running.server_state.connections)
        running.should_exit = True
        while not any(each.stopping for each in connections):
            time.sleep(0.01)
        new.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        answer = new.makefile("rb").read()  # to its end: the connection is closed
    assert answer.startswith(b"HTTP/1.1 200") and b"answer" in answer
    thread.join()
    listening.close()


def test_budgets_and_rights_of_keys(client, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    http, _ = client("gf-decoder", keys=read_keys(tmp_path / "keys.toml"))
    large = http.post(
        "/v1/completions", json={**STORY, "max_tokens": 200}, headers=as_client("bob-")
    )
    assert large.status_code == 413 and "100 per minute" in large.json()["error"]["message"]
    stop = {**STORY, "max_tokens": 90, "stop": [" "]}  # ends early: most of it is returned
    for _ in range(3):
        assert http.post("/v1/completions", json=stop, headers=as_client("bob-")).status_code == 200
    ask = {"model": "gf-decoder"}
    assert http.post("/models/unload", json=ask, headers=as_client("bob-")).status_code == 403
    assert http.post("/models/unload", json=ask, headers=as_client()).status_code == 200

    def never() -> Any:
        raise AssertionError("the body was read")
        yield b""

    json_body = {"content-type": "application/json"}
    assert http.post("/embed", content=never(), headers=json_body).status_code == 401


def test_a_chat_without_a_template_says_what_to_do(client) -> None:
    http, _ = client("gf-decoder")
    chat = {"model": "gf-decoder", "messages": [{"role": "user", "content": "Hello"}]}
    refused = http.post("/v1/chat/completions", json=chat)
    line = refused.json()["error"]["message"]
    assert refused.status_code == 400 and "use /v1/completions" in line and "--template" in line


def test_an_explanation_is_refused_before_anything_is_computed(client) -> None:
    http, host = client("gf-encoder", "gf-decoder", "gf-en-ru")
    long = "the cat sat on the mat " * 60
    asks = {
        "/fill": {"text": long + "[MASK]"},
        "/v1/completions": {**STORY, "max_tokens": 300},
        "/translate": {"q": ["a"] * 17, "source": "en", "target": "ru"},
    }
    for path, ask in asks.items():
        answer = http.post(path, json={**ask, "explain": True})
        assert answer.status_code == 400 and "explain" in answer.text, path
    assert not any(each.scheduler.done_tokens for each in host.models.values())


def test_nan_is_an_error_in_every_call(client, heads: Path) -> None:
    http, host = client("gf-encoder", "gf-en-ru", root=heads)
    for name in ("tagger", "reader"):
        host.load(name)
    for hosted in host.models.values():
        next(hosted.model.task.parameters()).data.fill_(torch.nan)
    asks = {
        "/fill": {"text": "A [MASK]."}, "/follows": {"a": "A", "b": "B"}, "/tag": {"text": "A"},
        "/answer": {"question": "Who?", "context": "A man."},
        "/translate": {"q": "A cat.", "source": "en", "target": "ru"},
    }  # fmt: skip
    for path, ask in asks.items():
        assert http.post(path, json=ask).status_code == 424, path


def test_errors_in_the_log_never_quote_a_text() -> None:
    try:
        raise ValueError("a private text")
    except ValueError:
        record = logging.LogRecord("a", 40, "a", 1, "failed", None, sys.exc_info())
    row = json.loads(JsonLines().format(record))
    assert "private" not in str(row) and row["error"].startswith("ValueError: test_serve_limits.py")


def test_what_clients_of_other_servers_send(shared) -> None:
    http, _ = shared
    message = {"role": "user", "content": [{"type": "text", "text": "Once"}]}
    chat = {"model": "gf-decoder", "messages": [message], "max_tokens": 2, "tool_choice": "none"}
    chat["response_format"] = {"type": "text"}
    assert http.post("/v1/chat/completions", json=chat).status_code == 200
    tiny = http.post("/v1/completions", json={**STORY, "temperature": 1e-300})
    greedy = http.post("/v1/completions", json=STORY)
    assert tiny.json()["choices"][0]["text"] == greedy.json()["choices"][0]["text"]
    one = http.post("/predict?model=classifier", json={"inputs": ["a"]}).json()
    assert one == http.post("/predict?model=classifier", json={"inputs": "a"}).json()
    assert http.get("/v1/models/gf-decoder").json()["id"] == "gf-decoder"
    assert http.get("/v1/models/none").json()["error"]["code"] == "model_not_found"
    assert http.get("/v1/none").json()["error"]["code"] == "unknown_url"
    assert http.get("/info").json()["model_id"] == "gf-encoder"
    assert "reranker" in http.get("/info?model=reranker").json()["model_type"]


def test_a_proxy_with_tls_and_the_usual_port(shared) -> None:
    http, _ = shared
    assert http.get("/v1/models", headers={"origin": "https://127.0.0.1:8000"}).status_code == 200
    assert http.get("/v1/models", headers={"origin": "https://127.0.0.1"}).status_code == 403
    assert loopback_hosts(80) > {"localhost", "localhost:80"}
    assert "localhost" not in loopback_hosts(8000)


def test_the_tokens_of_logprobs_are_those_of_the_text(shared) -> None:
    http, _ = shared
    ask = {**STORY, "max_tokens": 12, "logprobs": 2}
    whole = http.post("/v1/completions", json=ask).json()["choices"][0]
    tokens = whole["logprobs"]["tokens"]
    assert len(tokens) == 12 and "".join(tokens) == whole["text"]
    stop = whole["text"][20:24]
    cut = http.post("/v1/completions", json={**ask, "stop": [stop]}).json()["choices"][0]
    shown = cut["logprobs"]["tokens"]
    assert "".join(shown[:-1]) == whole["text"][: len("".join(shown[:-1]))]
    assert len("".join(shown[:-1])) < len(cut["text"]) <= len("".join(shown))


def test_bodies_that_cannot_be_read_and_the_icon(shared) -> None:
    http, _ = shared
    for kind, content in [
        ("application/json", b"[1]"), ("application/json", b"{"),
        ("application/json", b"[" * 9_000),
        ("application/x-www-form-urlencoded", b"\xff=1"),
    ]:  # fmt: skip
        answer = http.post("/translate", content=content, headers={"content-type": kind})
        assert answer.status_code == 400 and "neither a JSON object" in answer.json()["error"]
    for path, status in (("/embed", 422), ("/fill", 400)):
        answer = http.post(path, content=b"\xff", headers={"content-type": "application/json"})
        assert answer.status_code == status and "parsing the body" in answer.json()["error"]
    assert http.get("/icon.svg").headers["content-type"] == "image/svg+xml"
