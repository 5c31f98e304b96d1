"""Middleware around the whole app: keys, hosts, limits on bodies, request ids and the log.

No route sees a request that it refuses. Errors have the shape of the dialect that the path belongs
to, so that each client understands them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.asgi.requests import (
    FORM,
    HEADERS,
    JSON,
    SAFE_METHODS,
    Headers,
    Refused,
    check_host,
    check_origin,
    content_type,
    headers_of,
    read_body,
    read_fields,
    replayed,
    respond,
    with_headers,
)
from glassformer.serve import page
from glassformer.serve.dialects import FORM_PATHS, error_body
from glassformer.serve.keys import ClientKey
from glassformer.serve.logs import LOG
from glassformer.serve.state import RequestInfo, ServeState, new_info

MAX_BODY = 2 << 20  # bytes
BODY_TIMEOUT = 20.0  # seconds
PUBLIC = (*page.FILES, "/health", "/ready")  # they need no key
REQUEST_ID = re.compile(r"[\w.-]{1,64}")
MAX_LOGGED = 2_000  # characters of a text, if texts are logged


class Gate:
    """Args:
    hosts: what the header Host may be; None: anything
    paths: of the app, for the metrics
    log_text: write the bodies of requests into the log
    """

    def __init__(
        self, app: ASGIApp, state: ServeState, *, hosts: Collection[str] | None,
        paths: Collection[str], log_text: bool = False,
    ) -> None:  # fmt: skip
        self.app, self.state, self.hosts = app, state, hosts
        self.paths, self.log_text = frozenset(paths), log_text
        # Random numbers from the system for each request would wait for the model's thread.
        self.prefix, self.numbers = uuid.uuid4().hex[:16], itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":  # there is none
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, start, status = headers_of(scope), time.monotonic(), [499]
        own_id = headers.get("x-request-id", [""])[0]
        id = own_id if REQUEST_ID.fullmatch(own_id) else f"{self.prefix}{next(self.numbers):016x}"
        address = str((scope.get("client") or ("",))[0])
        info = new_info(id, address, None, self.state.seconds)
        scope["glassformer"] = info

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
            await send(message)

        reply = with_headers(watched, {**HEADERS, "x-request-id": id})
        body = b""
        try:
            try:
                self._check(scope, headers)
                if scope["path"] not in FORM_PATHS:  # there the key may be in the body
                    self._admit(scope, headers, b"", info)
                body = await _in_time(receive)
                if scope["path"] in FORM_PATHS:
                    self._admit(scope, headers, body, info)
            except Refused as refused:
                content = error_body(scope["path"], refused.status, refused.line)
                await respond(reply, refused.status, content, refused.headers)
            else:
                # The app has reported and logged it; uvicorn would log its text, too.
                with suppress(Exception):
                    await self.app(scope, replayed(body, receive), reply)
        finally:
            self._log(scope, info, status[0], time.monotonic() - start, body)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = (headers.get("host") or [""])[0]
        if self.hosts is not None:
            host = check_host(headers, self.hosts, f"open http://{min(self.hosts)}/")
        method, path = scope["method"], scope["path"]
        is_page = path == "/" and method in SAFE_METHODS
        check_origin(headers, host, is_page=is_page, schemes=("http", "https"))  # TLS: a proxy
        if method in SAFE_METHODS or path not in self.paths:
            return
        kind = content_type(headers)
        if kind != JSON and not (kind == FORM and path in FORM_PATHS):
            raise Refused(415, f"write the header Content-Type: {JSON}")

    def _admit(self, scope: Scope, headers: Headers, body: bytes, info: RequestInfo) -> None:
        """Find the key and the deadline."""
        path = scope["path"]
        if self.state.keys and path not in PUBLIC:
            info.key = self._key(headers, body)
            info.client = info.key.name
        seconds = (headers.get("x-request-timeout") or [""])[0]
        if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", seconds):
            info.deadline = min(info.deadline, time.monotonic() + float(seconds))
        elif seconds:
            raise Refused(400, f"X-Request-Timeout: {seconds!r:.40}: write a number of seconds")

    def _key(self, headers: Headers, body: bytes) -> ClientKey:
        scheme, _, secret = (headers.get("authorization") or [""])[0].partition(" ")
        if scheme.lower() != "bearer" or not secret:
            secret = str(_fields(headers, body).get("api_key", ""))
        key = self.state.keys.find(secret.strip())
        if key is None:
            raise Refused(
                401, "this server needs a key: write the header Authorization: Bearer KEY",
                {"www-authenticate": "Bearer"},
            )  # fmt: skip
        return key

    def _log(
        self, scope: Scope, info: RequestInfo, status: int, seconds: float, body: bytes
    ) -> None:
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        path = scope["path"] if scope["path"] in self.paths else "other"
        self.state.metrics.requests.labels(method, path, str(status)).inc()
        self.state.metrics.seconds.labels(path).observe(seconds)
        row: dict[str, Any] = {
            "request_id": info.id, "method": method, "path": path, "status": status,
            "ms": round(seconds * 1000, 1), "client": info.client, "model": info.model,
            "tokens": info.tokens,
        }  # fmt: skip
        if self.log_text and body:
            kept = _fields(headers_of(scope), body)
            kept.pop("api_key", None)
            row["text"] = json.dumps(kept, ensure_ascii=False)[:MAX_LOGGED]
        LOG.info("request", extra={"fields": row})


async def _in_time(receive: Receive) -> bytes:
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            return await read_body(receive, MAX_BODY)
    except TimeoutError:
        raise Refused(408, "the request did not arrive in time: send it again") from None


def _fields(headers: Headers, body: bytes) -> dict[str, Any]:
    """The fields of a body; none if it cannot be read, which its route reports."""
    try:
        return read_fields(body, content_type(headers))
    except ValueError:
        return {}
