"""The HTTP server: uvicorn, with a time limit for the headers of a request, and its socket."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from glassformer.errors import ConfigError

HEADER_SECONDS = 5.0  # from the first byte, or the connection, to the end of the headers
WRITE_SECONDS = 30.0  # that a client may read nothing of its response
# How long Ctrl-C waits for an unfinished request, if the caller does not choose.
SHUTDOWN_SECONDS = 2
LAST_REQUEST_SECONDS = 1.0  # that a server which stops waits for clients that have just connected
HERE = "127.0.0.1"  # this machine only


class TimedProtocol(H11Protocol):
    """Closes a connection whose headers do not arrive, or whose client stops reading: uvicorn
    would keep both forever. When the server stops, a client that has just connected is answered:
    its request may be on its way."""

    stopping = False
    timer: asyncio.TimerHandle | None = None
    write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        if self.timer is None and self._waits():
            self._start()
        super().data_received(data)
        if not self._waits():
            self._stop()
        if self.stopping and self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Called when the server stops."""
        if self.cycle is not None:
            super().shutdown()
            return
        self.stopping = True
        self._stop()
        self.timer = self.loop.call_later(LAST_REQUEST_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._stop_writing_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Called when the client reads too slowly and the buffer is full."""
        super().pause_writing()
        self._start_writing_timer()

    def resume_writing(self) -> None:
        self._stop_writing_timer()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._start_writing_timer()  # closing waits until the client has read everything

    def _waits(self) -> bool:
        """Whether the next bytes are headers."""
        return self.cycle is None or self.cycle.response_complete

    def _start(self) -> None:
        self.timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _start_writing_timer(self) -> None:
        if self.write_timer is None:
            self.write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def _stop_writing_timer(self) -> None:
        if self.write_timer is not None:
            self.write_timer.cancel()
            self.write_timer = None

    def _stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class SignallingServer(uvicorn.Server):
    """Reports that it serves, and at once that it is interrupted: uvicorn reports that when all
    connections have ended.

    Args:
        on_start: called when it accepts connections
        on_exit: called when a signal arrives
    """

    def __init__(
        self, config: uvicorn.Config, on_start: Callable[[], None], on_exit: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.on_start, self.on_exit = on_start, on_exit

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.on_exit()
        super().handle_exit(sig, frame)


def server(
    app: ASGIApp, *, shutdown_seconds: int = SHUTDOWN_SECONDS,
    on_start: Callable[[], None] = lambda: None, on_exit: Callable[[], None] = lambda: None,
) -> uvicorn.Server:  # fmt: skip
    """A server for an app; `run(sockets=[…])` serves until it is interrupted.

    Args:
        on_start: called when it accepts connections
        on_exit: called when a signal arrives, before unfinished requests are waited for
    """
    config = uvicorn.Config(
        app, http=TimedProtocol, ws="none", log_level="warning", server_header=False,
        timeout_graceful_shutdown=shutdown_seconds, proxy_headers=False,
    )  # fmt: skip
    return SignallingServer(config, on_start, on_exit)


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
