"""The browser's boundary: who may ask, for what, and what a page that we serve may do.

Every web site a user visits can send requests to 127.0.0.1. They carry the site's name as Origin,
or, where a name server lies about an address, as Host. Only our own page has the right ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 64 << 10  # bytes
FILES = {"/api/traces": 64 << 20}  # where a file may come, and its most bytes
SLOWEST = 10.0  # seconds for one to arrive
ASKING = ("GET", "HEAD")  # these change nothing
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
Kinds = tuple[list[str], ...]
JSON: Kinds = (["application/json"], ["application/json; charset=utf-8"])
FILE: Kinds = (["application/octet-stream"],)
NAMES = ("127.0.0.1", "localhost", "[::1]")


class Refused(Exception):
    """An answer that is an error, in one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status, self.line = status, line

    @property
    def body(self) -> bytes:
        return json.dumps({"error": self.line}, ensure_ascii=False).encode()


def no_model() -> Refused:
    return Refused(404, "there is no such model: ask /api/models")


class Guard:
    """Stands around the whole app: what it refuses, no route ever sees."""

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self.app = app
        self.hosts = frozenset(f"{name}:{port}" for name in NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":  # there are none here
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *ours]}
            await send(message)

        try:
            most = FILES.get(scope["path"]) if scope["method"] == "POST" else None
            self.check(scope["method"], _headers(scope), FILE if most else JSON)
            async with asyncio.timeout(SLOWEST):
                body = await _body(receive, most or MOST_BODY)
        except Refused as refused:
            await _answer(refused, guarded)
        except (TimeoutError, asyncio.CancelledError):  # or the studio ends: it waits for nobody
            await _answer(Refused(408, "the request does not end: send it again"), guarded)
        else:
            await self.app(scope, _again(body, receive), guarded)

    def check(self, method: str, headers: Mapping[str, list[str]], kinds: Kinds = JSON) -> None:
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            raise Refused(421, f"open the studio at http://{min(self.hosts)}/")
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            raise Refused(403, "another site's page may not ask here")
        if method in ASKING:
            return
        if len(origins) != 1:
            raise Refused(403, f"write the header Origin: http://{hosts[0]}")
        if headers.get("content-type") not in kinds:
            raise Refused(415, f"write the header Content-Type: {kinds[0][0]}")


async def _answer(refused: Refused, send: Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(refused.body)).encode()),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


async def _body(receive: Receive, most: int) -> bytes:
    """All of it, counted as it comes: what a header says about its size is only a promise."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":  # the client has left
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise Refused(413, f"the request is larger than {most >> 10:,} KiB: shorten it")
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more for the app; after it, whatever comes: that the client leaves."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
