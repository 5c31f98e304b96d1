"""Who may ask the studio, and for what: the browser's boundary."""

import asyncio
import json
import re
import sys

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from glassformer.studio.app import create_app
from glassformer.studio.guard import HEADERS, MAX_BODY
from sampling import mostly_slow

ORIGIN = "http://127.0.0.1:8642"
ASK = {"model": "toy-decoder", "text": "man ordered the"}
HOSTS = {
    "127.0.0.1:8642": 200,
    "localhost:8642": 200,
    "[::1]:8642": 200,
    "127.0.0.1": 421,
    "127.0.0.1:80": 421,
    "127.0.0.1:8643": 421,
    "127.0.0.1:08642": 421,
    "127.0.0.1:8642.": 421,
    "127.0.0.1.:8642": 421,
    "127.0.0.1.evil.com:8642": 421,
    "localhost": 421,
    "LOCALHOST:8642": 421,
    "localhost.evil.com:8642": 421,
    "localhost.:8642": 421,
    "evil.com": 421,
    "evil.com:8642": 421,
    "0.0.0.0:8642": 421,
    "127.1:8642": 421,
    "2130706433:8642": 421,
    "[::]:8642": 421,
    "::1:8642": 421,
    "user@127.0.0.1:8642": 421,
    "127.0.0.1:8642@evil.com": 421,
    "127.0.0.1:8642, evil.com": 421,
    "127.0.0.1:8642/": 421,
    "": 421,
}
ORIGINS = {
    "http://127.0.0.1:8642": 200,
    None: 403,
    "null": 403,
    "": 403,
    "https://127.0.0.1:8642": 403,
    "http://127.0.0.1": 403,
    "http://127.0.0.1:8643": 403,
    "http://localhost:8642": 403,  # the page was opened under the other name
    "http://127.0.0.1:8642/": 403,
    "http://127.0.0.1:8642.evil.com": 403,
    "http://evil.com": 403,
    "HTTP://127.0.0.1:8642": 403,
    "http://127.0.0.1:8642 http://evil.com": 403,
    "file://": 403,
    "http://0.0.0.0:8642": 403,
}
KINDS = {
    "application/json": 200,
    "application/json; charset=utf-8": 200,
    None: 415,
    "text/plain": 415,
    "application/x-www-form-urlencoded": 415,
    "multipart/form-data": 415,
    "text/plain; application/json": 415,
    "application/jsonp": 415,
}
HOSTILE = (
    "../0", "..%2f0", "0/../0", "0\x00", "\x000", "０", "٠", "0 ", " 0", "+0", "-1", "00", "0x0",
    "toy encoder", "/etc/passwd", "file:///etc/passwd", "<script>alert(1)</script>", "", "9" * 64,
    "\u202e0", "0\n", "__class__", "%00",
)  # fmt: skip


@pytest.fixture(scope="module")
def app(served):
    return create_app(served, port=8642)


@pytest.fixture
def client(app):
    return TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN})


def ask(client, **more):
    body = json.dumps(ASK)
    headers = {"content-type": "application/json", "origin": ORIGIN, **more}
    sent = {name: value for name, value in headers.items() if value is not None}
    client.headers = {}
    return client.post("/api/runs", content=body, headers=sent)


def refused(answer, status):
    """One line of JSON, with the headers of any other answer."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"] and answer.json()["error"].isprintable()
    guarded(answer)


def guarded(answer):
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value], name
    assert "set-cookie" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("host", HOSTS)
def test_only_our_own_names(client, host):
    found = client.get("/api/models", headers={"host": host, "origin": f"http://{host}"})
    assert found.status_code == HOSTS[host]
    guarded(found)
    assert ("models" in found.json()) == (HOSTS[host] == 200)


@pytest.mark.parametrize("origin", ORIGINS)
def test_only_our_own_page_may_change_something(client, origin):
    found = ask(client, origin=origin)
    assert found.status_code == ORIGINS[origin]
    guarded(found)
    assert ("run" in found.json()) == (ORIGINS[origin] == 200)


@pytest.mark.parametrize("kind", KINDS)
def test_only_json(client, kind):
    found = ask(client, **{"content-type": kind})
    assert found.status_code == KINDS[kind]
    guarded(found)


def test_another_origin_may_not_even_look(client):
    refused(client.get("/api/models", headers={"origin": "http://evil.com"}), 403)
    client.headers = {}
    assert client.get("/api/models").status_code == 200  # the address bar sends none


def test_every_route_is_behind_the_guard(client):
    """The list is the app's own, so that a new route cannot be forgotten."""
    routes = client.app.app.routes
    assert len(routes) > 12
    for route in routes:
        path = re.sub(r"\{\w+\}", "0", route.path)
        assert route.methods in ({"GET"}, {"POST"}), path
        (method,) = route.methods
        guarded(client.request(method, path))
        for bad in ({"host": "evil.com"}, {"origin": "http://evil.com"}):
            refused(client.request(method, path, headers=bad), 421 if "host" in bad else 403)
        if method == "POST":
            refused(client.post(path, content="{}"), 415)
        for other in {"PUT", "DELETE", "PATCH", "OPTIONS"}:
            json_too = {"content-type": "application/json"}
            refused(client.request(other, path, headers=json_too), 405)


def test_no_page_that_loads_from_elsewhere(client):
    for path in ("/docs", "/redoc", "/openapi.json", "/api", "/api/", "/static/x", "/web/"):
        refused(client.get(path), 404)


def test_pages_are_a_table_of_names(client):
    page = client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/app.py", "/index.html/",
                 "/%00", "/index.html%00.js", "/web/index.html"):  # fmt: skip
        refused(client.get(path), 404)


def test_a_web_socket_is_not_accepted(client):
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/"):
        pass


OPENED: list[str] = []
WATCHING = [False]


def watch(event, args):
    if WATCHING[0] and event == "open":
        OPENED.append(str(args[0]))


def test_hostile_model_ids_touch_no_file(client):
    sys.addaudithook(watch)
    client.get("/api/models")
    WATCHING[0] = True
    try:
        found = [client.post("/api/runs", json={"model": id, "text": "a"}) for id in HOSTILE]
        gone = [client.get(f"/api/runs/{id}/measures") for id in ("r999", "..%2f0", "%00", "r1 ")]
    finally:
        WATCHING[0] = False
    for answer in found + gone:
        refused(answer, 404)
    assert OPENED == []


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "[CLS] [SEP] [MASK]" * 3, "\u202e\u0000\u200b", "🙂" * 20,
     "' OR 1=1", "{{7*7}}", "а" * 50, "\r\nX-Evil: 1", " "],
)  # fmt: skip
@pytest.mark.parametrize("model", mostly_slow(["toy-encoder", "toy-decoder", "toy-translator"]))
def test_hostile_texts_are_texts(client, model, text):
    found = client.post("/api/runs", json={"model": model, "text": text})
    assert found.status_code in (200, 400)
    assert "x-evil" not in found.headers
    guarded(found)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("", "JSON"),
        ("[]", "object"),
        ("null", "object"),
        ("{" * 5_000, "JSON"),
        ('{"model": "toy-encoder"}', "text"),
        ('{"model": 0, "text": "a"}', "model"),
        ('{"model": "toy-encoder", "text": ["a"]}', "text"),
        ('{"model": "toy-encoder", "text": "a", "path": "/etc"}', "path"),
        ('{"model": "toy-encoder", "text": "\\ud800"}', "JSON"),
        ('{"model": "toy-encoder", "text": "a", "off": [["encoder", 0]]}', "off"),
        ('{"model": "toy-encoder", "text": "a", "off": [["encoder", 0, 1.5]]}', "off"),
        ('{"model": "toy-encoder", "text": "a", "off": [["encoder", 0, true]]}', "off"),
        (
            '{"model": "toy-encoder", "text": "a", "off": [["encoder", 0, 4]]}',
            "no head 4 in layer 0",
        ),
        ('{"model": "toy-encoder", "text": "a", "off": [["encoder", -1, 0]]}', "layer -1"),
        ('{"model": "toy-encoder", "text": "a", "off": [["cross", 0, 0]]}', "cross"),
        ('{"model": "toy-encoder", "text": ""}', None),
    ],
)
def test_wrong_requests_are_told_so(client, body, line):
    found = client.post("/api/runs", content=body, headers={"content-type": "application/json"})
    if line is not None:
        refused(found, 400)
        assert line in found.json()["error"]


def test_places_that_are_not_there(client, run):
    id = run(2)["run"]
    for path in ("head/cross/2/0", "head/cross/0/4", "head/cross/-1/0", "head/self/0/0",
                 "head/cross/x/0", "head/cross/0/0?view=odd", "row/cross/0/0/5", "row/cross/0/0/-1",
                 "numbers/encoder/0/0/7", "head/cross/0/0?view=rollout", "lens/99",
                 f"row/cross/0/0/{'9' * 400}"):  # fmt: skip
        refused(client.get(f"/api/runs/{id}/{path}"), 400)
    for path in ("map/encoder/", "", "row/cross/0/0"):
        refused(client.get(f"/api/runs/{id}/{path}"), 404)


def test_sizes_are_bounded(client):
    room = MAX_BODY - len(json.dumps({**ASK, "text": ""}))
    send = {"content-type": "application/json"}
    for more, status in ((0, 400), (1, 413)):
        body = json.dumps({**ASK, "text": "a" * (room + more)})
        found = client.post("/api/runs", content=body, headers=send)
        assert found.status_code in (status, 200 if status == 400 else status)
        guarded(found)

    def in_parts():
        for _ in range(20):
            yield b" " * 8_000

    refused(client.post("/api/runs", content=in_parts(), headers=send), 413)
    refused(client.post("/api/runs", json={**ASK, "model": "0" * 65}), 400)


def test_a_text_that_is_too_long_is_not_cut(client):
    assert (
        client.post("/api/runs", json={"model": "toy-decoder", "text": "the " * 31}).status_code
        == 200
    )
    found = client.post("/api/runs", json={"model": "toy-decoder", "text": "the " * 32})
    refused(found, 400)
    assert found.json()["error"] == "the text has 33 tokens and at most 32 fit here: shorten it"


def test_a_translation_that_is_too_long_is_not_even_spelt(client, monkeypatch):
    """To spell ids takes time by their square."""
    monkeypatch.setattr("glassformer.studio.runs.tokenize_ids", None)
    body = {"model": "toy-translator", "text": "the cat", "second": "the " * 15_000}
    refused(client.post("/api/runs", json=body), 400)


def test_a_request_that_does_not_end_is_answered(served, monkeypatch):
    monkeypatch.setattr("glassformer.studio.guard.BODY_TIMEOUT", 0.05)
    headers = {"host": "127.0.0.1:8642", "origin": ORIGIN, "content-type": "application/json"}
    scope = {
        "type": "http", "method": "POST", "path": "/api/runs",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    sent = []

    async def never():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    asyncio.run(create_app(served, port=8642)(scope, never, send))
    assert sent[0]["status"] == 408 and b"in time" in sent[1]["body"]


def test_a_mistake_of_ours_tells_nothing_of_the_machine(served, open_studio, monkeypatch):
    def broken(*_):
        raise RuntimeError("/home/somebody/secret.py")

    monkeypatch.setattr("glassformer.studio.runs.record_run", broken)
    found = open_studio(served, raise_server_exceptions=False).post("/api/runs", json=ASK)
    refused(found, 500)
    assert "secret" not in found.text and "Traceback" not in found.text
