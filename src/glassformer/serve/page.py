"""The page at /: a form for each task and the live queue. Its files are read once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Response

WEB = Path(__file__).parent / "web"
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


def add_routes(app: FastAPI) -> None:
    for path, (name, kind) in FILES.items():
        content = (WEB / name).read_bytes()
        app.get(path, include_in_schema=False)(_endpoint(content, kind))


def _endpoint(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def respond() -> Response:
        return Response(content, media_type=kind)

    return respond
