"""The files of web/. Each is read once and has its own route: no request becomes a path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Response

from glassformer.studio.standalone import WEB

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


def add_routes(app: FastAPI) -> None:
    def endpoint(content: bytes, media_type: str) -> Callable[[], Awaitable[Response]]:
        async def respond() -> Response:
            return Response(content, media_type=media_type)

        return respond

    for path in sorted(WEB.rglob("*")):
        if path.suffix in MEDIA_TYPES:
            name = path.relative_to(WEB).as_posix()
            respond = endpoint(path.read_bytes(), MEDIA_TYPES[path.suffix])
            app.get("/" if name == "index.html" else f"/{name}")(respond)
