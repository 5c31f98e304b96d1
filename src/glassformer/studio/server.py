"""The HTTP server of the studio: uvicorn, with a time limit for the headers of a request."""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 5.0  # from the first byte, or the connection, to the end of the headers
SHUTDOWN_SECONDS = 2  # how long Ctrl-C waits for an unfinished request


class TimedProtocol(H11Protocol):
    """Closes a connection whose headers do not arrive: uvicorn would keep it forever."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        if self.timer is None and self._waits():
            self._start()
        super().data_received(data)
        if not self._waits():
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _waits(self) -> bool:
        """Whether the next bytes are headers."""
        return self.cycle is None or self.cycle.response_complete

    def _start(self) -> None:
        self.timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def server(app: ASGIApp) -> uvicorn.Server:
    """A server for the studio's app; `run(sockets=[…])` serves until it is interrupted."""
    return uvicorn.Server(
        uvicorn.Config(
            app, http=TimedProtocol, ws="none", log_level="warning", server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )  # fmt: skip
