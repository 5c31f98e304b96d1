"""The files of web/. Each is read and compressed once and has its own route.

No request becomes a path. The page loads all modules as one script, and all style sheets as one;
each module is served by itself, too.
"""

from __future__ import annotations

import functools
import gzip
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response

from glassformer.studio.standalone import WEB, script, style

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
compressed = functools.cache(functools.partial(gzip.compress, mtime=0))


def add_routes(app: FastAPI) -> None:
    def add(name: str, content: bytes, suffix: str) -> None:
        app.get(f"/{name}")(_endpoint(content, MEDIA_TYPES[suffix]))

    for path in sorted(WEB.iterdir()):
        if path.suffix in MEDIA_TYPES:
            name = "" if path.name == "index.html" else path.name
            add(name, path.read_bytes(), path.suffix)
    add("studio.js", script().encode(), ".js")
    add("studio.css", style().encode(), ".css")


def _endpoint(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        headers = {"Vary": "Accept-Encoding"}
        if not accepts_gzip(request.headers.get("accept-encoding", "")):
            return Response(content, media_type=media_type, headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(compressed(content), media_type=media_type, headers=headers)

    return respond


def accepts_gzip(header: str) -> bool:
    """Whether a header Accept-Encoding, such as `gzip;q=0.5, br`, allows gzip.

    Examples:
        >>> accepts_gzip("gzip;q=0.5, br"), accepts_gzip("gzip;q=0, *")
        (True, False)
    """
    weights = {}
    for entry in header.lower().split(","):
        coding, _, weight = entry.partition(";")
        weights[coding.strip()] = weight.strip().removeprefix("q=")
    weight = weights.get("gzip", weights.get("*", "0"))
    try:
        return not weight or float(weight) > 0
    except ValueError:  # not a weight: the response is sent as it is
        return False
