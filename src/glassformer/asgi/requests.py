"""Requests before any route sees them: their hosts, origins, headers and bodies."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HTTP_PORT = 80
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
Headers = Mapping[str, list[str]]


class Refused(Exception):
    """An HTTP error with one line of explanation, and perhaps headers."""

    def __init__(self, status: int, line: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(line)
        self.status, self.line, self.headers = status, line, dict(headers or {})


def loopback_hosts(port: int) -> frozenset[str]:
    """What the header Host may be on a server that only this machine reaches."""
    names = LOOPBACK if port == HTTP_PORT else ()  # clients leave that port out
    return frozenset((*(f"{name}:{port}" for name in LOOPBACK), *names))


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """All values of each header, by its name in lower case."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def content_type(headers: Headers) -> str:
    """Without its parameters, in lower case."""
    return (headers.get("content-type") or [""])[0].partition(";")[0].strip().lower()


def check_host(headers: Headers, hosts: Collection[str], line: str) -> str:
    """The Host of the request; refused with this line if it is not one of `hosts`.

    A site whose name resolves to 127.0.0.1 (DNS rebinding) has its own name here.
    """
    names = headers.get("host", [])
    if len(names) != 1 or names[0] not in hosts:
        raise Refused(421, line)
    return names[0]


def check_origin(
    headers: Headers, host: str, *, is_page: bool, schemes: Sequence[str] = ("http",)
) -> None:
    """Refused if a page of another site sends the request; a link to a page is fine.

    Args:
        schemes: those under which our own pages are offered
    """
    line = "requests from other sites are refused"
    ours = [f"{scheme}://{host}" for scheme in schemes]
    if any(origin not in ours for origin in headers.get("origin", [])):
        raise Refused(403, line)
    elsewhere = any(site not in OUR_SITES for site in headers.get("sec-fetch-site", []))
    if elsewhere and not is_page:
        raise Refused(403, line)


async def respond(send: Send, status: int, content: Any, headers: Mapping[str, str]) -> None:
    """Send a whole response of JSON."""
    body = json.dumps(content, ensure_ascii=False).encode()
    lines = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **headers,
    }
    encoded = [(name.encode(), value.encode()) for name, value in lines.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """A send function that adds these headers to the response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.encode(), value.encode()) for name, value in headers.items()]
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return send_with_headers


async def read_body(receive: Receive, most: int) -> bytes:
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


def read_fields(body: bytes, kind: str) -> dict[str, Any]:
    """The fields of a JSON object, or of a form; ValueError if it is neither."""
    if kind != JSON:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True))
    try:
        content = json.loads(body)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(content, dict):
        raise ValueError("no object")
    return content


def replayed(body: bytes, receive: Receive) -> Receive:
    """A receive function that returns the body again, then what follows (the disconnect)."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def first_error(errors: Sequence[Any], skip: int = 0) -> str:
    """The first validation error as `field: message`; `skip` drops leading parts of its path."""
    field = ".".join(map(str, errors[0]["loc"][skip:]))
    return f"{field}: {errors[0]['msg']}" if field else str(errors[0]["msg"])
