"""Keys, hosts, limits, the log, the end of the process, and mistakes in the command."""

from __future__ import annotations

import http.client
import json
import re
import resource
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from commands import refused
from glassformer.serve.gate import MAX_BODY, PUBLIC
from glassformer.serve.keys import read_keys
from ports import free_port
from serve.processes import serving

SECRET = "a-secret-of-enough-characters"
FILE = f'[alice]\nkey = "{SECRET}"\n[bob]\nkey = "bob-{SECRET}"\ntokens_per_minute = 20\n'


def routes(client) -> list[tuple[str, str]]:
    """All methods and paths, from the app's own description."""
    paths = client.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, each in paths.items() for method in each]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return path


def test_every_route_has_its_limits(client) -> None:
    """Taken from the app: none is forgotten."""
    app, _ = client("gf-encoder")
    every = routes(app)
    assert len(every) >= 20
    for method, path in every:
        other = app.request(method, path, headers={"host": "evil.example"})
        assert other.status_code == 421, path
        elsewhere = app.request(method, path, headers={"origin": "https://evil.example"})
        assert elsewhere.status_code == 403, path
        assert not any(name.startswith("access-control") for name in elsewhere.headers)
        if method == "POST":
            large = app.post(
                path, content=b" " * (MAX_BODY + 1), headers={"content-type": "application/json"}
            )
            assert large.status_code == 413, path
            plain = app.post(path, content=b"{}", headers={"content-type": "text/plain"})
            assert plain.status_code == 415, path
            deep = app.post(
                path, content=b"[" * 100_000, headers={"content-type": "application/json"}
            )
            assert deep.status_code in (400, 422), path
        answer = app.request(method, path, json={} if method == "POST" else None)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"]
        assert answer.status_code < 500


def test_every_route_needs_the_key(client, keys: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "glassformer.serve")
    app, _ = client("gf-encoder", keys=read_keys(keys))
    for method, path in routes_with(app):
        body = {} if method == "POST" else None
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": SECRET}):
            answer = app.request(method, path, json=body, headers=headers)
            assert (answer.status_code == 401) == (path not in PUBLIC), path
    auth = {"authorization": f"Bearer {SECRET}"}
    assert app.post("/embed", json={"inputs": "a"}, headers=auth).status_code == 200
    form = app.post(
        "/translate", data={"q": "a", "source": "en", "target": "ru", "api_key": SECRET}
    )
    assert form.status_code == 400 and "no model translates" in form.json()["error"]
    mine = {"authorization": f"Bearer bob-{SECRET}", "x-request-id": "one-two"}
    assert app.post("/embed", json={"inputs": "a b c d e f"}, headers=mine).status_code == 200
    spent = app.post("/embed", json={"inputs": "a b c d e f g h i j k l"}, headers=mine)
    assert spent.status_code == 429 and int(spent.headers["retry-after"]) > 1
    rows = [record.fields for record in caplog.records]
    assert SECRET not in json.dumps(rows) and rows[-1]["client"] == "bob"
    assert rows[-1]["request_id"] == "one-two" and "text" not in rows[-1]


def routes_with(app) -> list[tuple[str, str]]:
    headers = {"authorization": f"Bearer {SECRET}"}
    paths = app.get("/openapi.json", headers=headers).json()["paths"]
    return [(method.upper(), path) for path, each in paths.items() for method in each]


def test_deadlines_and_strange_headers(client) -> None:
    app, _ = client("gf-encoder")
    late = app.post("/embed", json={"inputs": "a"}, headers={"x-request-timeout": "0"})
    assert late.status_code == 504
    wrong = app.post("/embed", json={"inputs": "a"}, headers={"x-request-timeout": "soon"})
    assert wrong.status_code == 400
    odd = app.get("/health", headers={"x-request-id": "<script>" * 20})
    assert odd.status_code == 200 and "script" not in odd.headers["x-request-id"]
    text = app.get("/metrics").text
    assert 'vllm:num_requests_waiting{model_name="gf-encoder"}' in text
    assert 'te_request_count_total{method="POST",path="/embed",status="504"} 1.0' in text


def test_all_keys_are_compared_in_constant_time(keys: Path, monkeypatch) -> None:
    compared: list[tuple[int, int]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return a == b

    monkeypatch.setattr("glassformer.serve.keys.hmac.compare_digest", compare)
    known = read_keys(keys)
    for secret in ("", "a", SECRET, f"bob-{SECRET}", "x" * 600):
        known.find(secret)
        assert compared == [(32, 32)] * 2  # digests of one length, whichever key matches
        compared.clear()


NAMES = st.sampled_from([
    "host", "origin", "authorization", "content-length", "content-type", "x-request-id", "cookie",
    "x-request-timeout", "transfer-encoding", "connection", "expect", "upgrade", "sec-fetch-site",
])  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    path=st.sampled_from([b"/health", b"/embed", b"/translate", b"/models/load", b"/"]),
    lines=st.lists(st.tuples(NAMES | st.binary(max_size=9), st.binary(max_size=40)), max_size=5),
)
def test_fuzzed_headers_are_refused_or_answered(server, path, lines) -> None:
    """Whatever the bytes are: no error of the server's own, and it serves on."""
    body = b'{"inputs": "a"}'
    head = [
        b"POST " + path + b" HTTP/1.1", b"host: 127.0.0.1:%d" % server.port,
        b"content-type: application/json", b"content-length: %d" % len(body),
        *(b"%b: %b" % (name.encode() if isinstance(name, str) else name, value)
          for name, value in lines), b"connection: close", b"", body,
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(b"\r\n".join(head))
        raw.shutdown(socket.SHUT_WR)
        answer = raw.makefile("rb").read()
    assert not answer or re.match(rb"HTTP/1.1 [1-4]\d\d", answer), answer
    assert b"Traceback" not in answer and b'File "' not in answer


@pytest.mark.slow
def test_a_process_that_is_stopped_finishes_what_it_accepted(keys: Path) -> None:
    with serving("gf-decoder", "--keys", keys, "--log-text") as server:
        headers = {"authorization": f"Bearer {SECRET}"}
        body = {"model": "gf-decoder", "prompt": "Once", "max_tokens": 100, "temperature": 0}
        events: list[str] = []
        url, ask = f"{server.url}/v1/completions", {**body, "stream": True}
        with httpx.stream("POST", url, json=ask, headers=headers, timeout=60) as stream:
            lines = stream.iter_lines()
            events.append(next(lines))
            stopping = threading.Thread(target=server.process.terminate)
            stopping.start()
            events += list(lines)
        stopping.join()
        assert [line for line in events if line][-1] == "data: [DONE]"
        code = server.process.wait(60)
        rows = [json.loads(line) for line in server.process.stderr.read().splitlines()]
        assert code == 0
        assert rows[-1]["path"] == "/v1/completions" and rows[-1]["status"] == 200
        assert '"prompt": "Once"' in rows[-1]["text"] and SECRET not in json.dumps(rows)


def test_half_sent_and_dying_clients_harm_nobody(server) -> None:
    half = http.client.HTTPConnection("127.0.0.1", server.port)
    half.putrequest("POST", "/embed")
    half.putheader("content-type", "application/json")
    half.putheader("content-length", "99")
    half.endheaders(b"{")
    body = {"model": "gf-decoder", "prompt": "Once", "max_tokens": 100, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body) as stream:
        next(stream.iter_lines())  # and then it leaves
    assert httpx.post(f"{server.url}/embed", json={"inputs": "a"}).status_code == 200
    end = time.monotonic() + 60
    while any(row["running"] for row in httpx.get(f"{server.url}/queue").json()):
        assert time.monotonic() < end
        time.sleep(0.02)
    half.close()


def large_decoder(folder: Path) -> None:
    """A model whose cache for many texts is large: 32 MB for each of them."""
    small = gf.load("gf-decoder")
    sizes = {"depth": 3, "max_length": 4_096, "key_heads": small.config.heads}
    task = gf.build_task(small.config.model_copy(update=sizes), small.task.spec)
    gf.Model(task, small.tokenizer).eval().save(folder)


@pytest.mark.slow
def test_a_request_without_memory_fails_alone(tmp_path: Path) -> None:
    """The server may use 200 MB more: enough for some texts, not for sixteen."""
    large_decoder(tmp_path / "large")
    with serving(tmp_path / "large", "gf-encoder") as server:
        threading.Thread(target=server.process.stderr.read, daemon=True).start()
        ask = {"model": "large", "prompt": "Once", "max_tokens": 4, "temperature": 1}
        with httpx.Client(base_url=server.url, timeout=120) as http:
            assert http.post("/v1/completions", json=ask).status_code == 200
            assert http.post("/embed", json={"inputs": "a"}).status_code == 200
            pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + (200 << 20)
            resource.prlimit(server.process.pid, resource.RLIMIT_AS, (most, most))
            many = http.post("/v1/completions", json={**ask, "n": 16})
            assert many.status_code == 424 and "failed" in many.json()["error"]["message"]
            for _ in range(2):
                assert http.post("/v1/completions", json=ask).status_code == 200
                assert http.post("/embed", json={"inputs": "a"}).status_code == 200


@pytest.mark.slow
def test_a_client_that_sends_slowly_and_one_that_sends_too_much(server) -> None:
    slow = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    slow.putrequest("POST", "/embed")
    slow.putheader("content-type", "application/json")
    slow.putheader("content-length", "99")
    slow.endheaders(b"{")
    large = httpx.post(
        f"{server.url}/embed", content=b" " * 10_000_000, timeout=60,
        headers={"content-type": "application/json"},
    )  # fmt: skip
    assert large.status_code == 413
    assert httpx.post(f"{server.url}/embed", json={"inputs": "a"}).status_code == 200
    assert slow.getresponse().status == 408
    slow.close()


MISTAKES = {
    "no model": ((), "write at least one model"),
    "an unknown model": (("gf-encodr",), "did you mean gf-encoder"),
    "no folder": (("--models", "nowhere"), "--models nowhere: no such folder"),
    "no keys": (("gf-encoder", "--keys", "nowhere.toml"), "no such file: write a TOML file"),
    "names and workers": (
        ("gf-encoder", "--models", ".", "--workers", "2"),
        "with --workers no models are loaded by name",
    ),
    "open to all": (("gf-encoder", "--host", "0.0.0.0"), "write --keys FILE, too"),
    "no such address": (
        ("gf-encoder", "--host", "203.0.113.7", "--keys", "KEYS"),
        "--host 203.0.113.7",
    ),
    "no template": (("gf-encoder", "--template", "no.jinja"), "no.jinja: no such file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake: str, keys: Path) -> None:
    words, line = MISTAKES[mistake]
    code = 1 if mistake in ("an unknown model", "no template") else 2
    named = [keys if word == "KEYS" else word for word in words]
    assert line in refused("serve", *named, "--port", free_port(), code=code)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "there is no key in it"), ("x = 5\n", "x is not a table"),
        ("[a]\nkey = 'short'\n", "key: write 16"),
        ("[a\n", "this is not TOML"), (f"[a]\nkey = '{SECRET}'\nsize = 4\n", "size"),
        (f"[a]\nkey = '{SECRET}'\n[b]\nkey = '{SECRET}'\n", "two names have the same key"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_keys_never_shows_them(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(content)
    message = refused("serve", "gf-encoder", "--keys", path, code=2)
    assert line in message and SECRET not in message


def test_a_port_that_is_taken(server) -> None:
    line = refused("serve", "gf-encoder", "--port", server.port, code=2)
    assert f"--port {server.port}" in line and "write --port" in line
