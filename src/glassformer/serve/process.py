"""One process of the server: it loads the models and serves until it is stopped."""

from __future__ import annotations

import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.serve.keys import Keys
from glassformer.serve.logs import log_to_stderr

if TYPE_CHECKING:
    from glassformer.serve.gate import Gate

# A decoding step on a GPU takes about a millisecond and releases Python's lock several times: the
# event loop must not keep the lock for the usual 5 milliseconds each time.
SWITCH_SECONDS = 0.0002


@dataclass(frozen=True)
class ServeOptions:
    """What a process needs to serve; it can be sent to another process.

    Args:
        models: from the names of the models to their folders
        root: a folder; each model folder below it may be loaded, too
        hosts: what the header Host may be; None: anything
        seconds: that a request may take
        template: a Jinja template for chats
        workers: processes of the server, here or on other machines
    """

    models: Mapping[str, str]
    root: Path | None = None
    device: str = "auto"
    slots: int | None = None
    queue_tokens: int | None = None
    context: int | None = None
    keys: Keys = field(default_factory=lambda: Keys([]))
    hosts: frozenset[str] | None = None
    seconds: float = 120.0
    template: str | None = None
    log_text: bool = False
    workers: int = 1


def make_app(options: ServeOptions) -> Gate:
    """Load the models and make the ASGI app that serves them: for any ASGI server, and for Ray."""
    # These import torch: the process that only watches others does without it.
    from glassformer.distributed import resolve_device
    from glassformer.serve.app import create_app
    from glassformer.serve.host import Host, HostOptions
    from glassformer.serve.state import ServeState

    device = str(resolve_device(options.device, "--device"))
    scheduling = HostOptions(device, options.slots, options.queue_tokens, options.context)
    host = Host(options.models, options.root, scheduling)
    for name in options.models:
        host.load(name)
    log_to_stderr()
    sys.setswitchinterval(SWITCH_SECONDS)
    warnings.simplefilter("ignore", UserWarning)  # clients choose that texts are truncated
    state = ServeState(host, options.keys, options.seconds, options.template, options.workers)
    return create_app(state, hosts=options.hosts, log_text=options.log_text)


def serve(options: ServeOptions, listening: socket.socket, on_start: Callable[[], None]) -> None:
    """Serve until a signal arrives; then finish what was accepted.

    Args:
        on_start: called when the models are loaded and connections are accepted
    """
    from glassformer.asgi.server import server

    app = make_app(options)
    # uvicorn drains on these signals, then raises them again: then the process just ends.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    seconds = max(1, round(options.seconds))
    # Of several workers, the others take new connections, and this one answers its last ones.
    drain = app.state.host.drain if options.workers == 1 else lambda: None
    running = server(app, shutdown_seconds=seconds, on_start=on_start, on_exit=drain)
    running.run(sockets=[listening])
