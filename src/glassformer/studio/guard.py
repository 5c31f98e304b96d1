"""The security boundary: which requests are accepted, and what the served pages may do.

Every web site that a user visits can send requests to 127.0.0.1. They carry the site's name as
Origin, or (DNS rebinding) as Host. Only the studio's own page has the right ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 64 << 10  # bytes
UPLOADS = {"/api/traces": 64 << 20}  # paths that accept a file, and its largest size in bytes
BODY_TIMEOUT = 10.0  # seconds
SAFE_METHODS = ("GET", "HEAD")  # these change nothing
OUR_SITES = ("same-origin", "none")  # what browsers write in Sec-Fetch-Site
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
ContentTypes = tuple[list[str], ...]
JSON: ContentTypes = (["application/json"], ["application/json; charset=utf-8"])
FILE: ContentTypes = (["application/octet-stream"],)
NAMES = ("127.0.0.1", "localhost", "[::1]")


class Refused(Exception):
    """An HTTP error with one line of explanation."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status, self.line = status, line

    @property
    def body(self) -> bytes:
        return json.dumps({"error": self.line}, ensure_ascii=False).encode()


def no_model() -> Refused:
    return Refused(404, "there is no such model: /api/models lists them")


class Guard:
    """Middleware around the whole app: no route sees a request that it refuses."""

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self.app = app
        self.hosts = frozenset(f"{name}:{port}" for name in NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":  # the studio has none
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
            most = UPLOADS.get(scope["path"]) if scope["method"] == "POST" else None
            allowed = FILE if most else JSON
            self.check(scope["method"], _headers(scope), allowed, path=scope["path"])
            async with asyncio.timeout(BODY_TIMEOUT):
                body = await _body(receive, most or MAX_BODY)
        except Refused as refused:
            await _respond(refused, guarded)
        except (TimeoutError, asyncio.CancelledError):  # cancelled: the server shuts down
            late = Refused(408, "the request did not arrive in time: send it again")
            await _respond(late, guarded)
        else:
            await self.app(scope, _replayed(body, receive), guarded)

    def check(
        self,
        method: str,
        headers: Mapping[str, list[str]],
        allowed: ContentTypes = JSON,
        *,
        path: str = "/",
    ) -> None:
        hosts, origins = headers.get("host", []), headers.get("origin", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            raise Refused(421, f"open the studio at http://{min(self.hosts)}/")
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            raise Refused(403, "requests from other sites are refused")
        elsewhere = any(site not in OUR_SITES for site in headers.get("sec-fetch-site", []))
        if elsewhere and not (path == "/" and method in SAFE_METHODS):  # a link to the page is fine
            raise Refused(403, "requests from other sites are refused")
        if method in SAFE_METHODS:
            return
        if len(origins) != 1:
            raise Refused(403, f"write the header Origin: http://{hosts[0]}")
        if headers.get("content-type") not in allowed:
            raise Refused(415, f"write the header Content-Type: {allowed[0][0]}")


async def _respond(refused: Refused, send: Send) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(refused.body)).encode()),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.body})


def _headers(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


async def _body(receive: Receive, most: int) -> bytes:
    """The whole body, counted as it arrives: its Content-Length may lie."""
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


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A receive function that returns the body again, then what follows (the disconnect)."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
