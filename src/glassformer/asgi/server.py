"""The HTTP server: uvicorn, with a time limit for the headers of a request, and its socket."""

from __future__ import annotations

import asyncio
import errno
import socket

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.errors import ConfigError

HEADER_SECONDS = 5.0  # from the first byte, or the connection, to the end of the headers
SHUTDOWN_SECONDS = (
    2  # how long Ctrl-C waits for an unfinished request, if the caller does not choose
)
HERE = "127.0.0.1"  # this machine only


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


def server(app: ASGIApp, *, shutdown_seconds: int = SHUTDOWN_SECONDS) -> uvicorn.Server:
    """A server for an app; `run(sockets=[…])` serves until it is interrupted."""
    return uvicorn.Server(
        uvicorn.Config(
            app, http=TimedProtocol, ws="none", log_level="warning", server_header=False,
            timeout_graceful_shutdown=shutdown_seconds,
        )
    )  # fmt: skip


def listen(port: int, host: str = HERE) -> socket.socket:
    """Bind the port before any model is loaded, so that a taken port is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol asyncio sets TCP_NODELAY: small responses arrive 40 ms earlier.
    listening = socket.socket(family, proto=socket.IPPROTO_TCP)
    # On Windows SO_REUSEADDR would share a port that is taken.
    exclusive = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listening.setsockopt(socket.SOL_SOCKET, exclusive, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(
                f"--host {host}: {error.strerror}: write an address of this machine, such as {HERE}"
            ) from None
        with socket.socket() as other:
            other.bind((HERE, 0))
            free = other.getsockname()[1]
        raise ConfigError(f"--port {port}: {error.strerror}: write --port {free}") from None
    return listening
