"""The security boundary: which requests are accepted, and what the served pages may do.

Every web site that a user visits can send requests to 127.0.0.1. They carry the site's name as
Origin, or (DNS rebinding) as Host. Only the studio's own page has the right ones.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.asgi.requests import (
    HEADERS,
    SAFE_METHODS,
    Headers,
    Refused,
    check_host,
    check_origin,
    headers_of,
    loopback_hosts,
    read_body,
    replayed,
    respond,
    with_headers,
)

MAX_BODY = 64 << 10  # bytes
UPLOADS = {"/api/traces": 64 << 20}  # paths that accept a file, and its largest size in bytes
BODY_TIMEOUT = 10.0  # seconds
ContentTypes = tuple[list[str], ...]
JSON: ContentTypes = (["application/json"], ["application/json; charset=utf-8"])
FILE: ContentTypes = (["application/octet-stream"],)


def no_model() -> Refused:
    return Refused(404, "there is no such model: /api/models lists them")


class Guard:
    """Middleware around the whole app: no route sees a request that it refuses."""

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self.app = app
        self.hosts = loopback_hosts(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, with_headers(send, HEADERS))
        elif scope["type"] == "websocket":  # the studio has none
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            most = UPLOADS.get(scope["path"]) if scope["method"] == "POST" else None
            allowed = FILE if most else JSON
            self.check(scope["method"], headers_of(scope), allowed, path=scope["path"])
            async with asyncio.timeout(BODY_TIMEOUT):
                body = await read_body(receive, most or MAX_BODY)
        except Refused as refused:
            await respond(send, refused.status, {"error": refused.line}, refused.headers)
        except (TimeoutError, asyncio.CancelledError):  # cancelled: the server shuts down
            late = "the request did not arrive in time: send it again"
            await respond(send, 408, {"error": late}, {})
        else:
            await self.app(scope, replayed(body, receive), send)

    def check(
        self, method: str, headers: Headers, allowed: ContentTypes = JSON, *, path: str = "/"
    ) -> None:
        host = check_host(headers, self.hosts, f"open the studio at http://{min(self.hosts)}/")
        check_origin(headers, host, is_page=path == "/" and method in SAFE_METHODS)
        if method in SAFE_METHODS:
            return
        if len(headers.get("origin", [])) != 1:
            raise Refused(403, f"write the header Origin: http://{host}")
        if headers.get("content-type") not in allowed:
            raise Refused(415, f"write the header Content-Type: {allowed[0][0]}")
