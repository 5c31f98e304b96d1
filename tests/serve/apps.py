"""Apps of the server in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from glassformer.asgi.requests import loopback_hosts
from glassformer.serve.app import create_app
from glassformer.serve.host import Host, HostOptions
from glassformer.serve.state import ServeState

PORT = 8000
Make = Callable[..., tuple[TestClient, Host]]


@contextmanager
def clients() -> Iterator[Make]:
    """Makes clients of apps, with hosts of these models; they end with the context."""
    hosts: list[Host] = []

    def make(
        *names: str, root: Path | None = None, options: HostOptions | None = None, **more: Any
    ) -> tuple[TestClient, Host]:
        host = Host({name: name for name in names}, root, options)
        hosts.append(host)
        for name in names:
            host.load(name)
        app = create_app(ServeState(host, **more), hosts=loopback_hosts(PORT))
        base = f"http://127.0.0.1:{PORT}"
        return TestClient(app, base_url=base, raise_server_exceptions=False), host

    yield make
    for host in hosts:
        host.close()
