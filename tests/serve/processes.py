"""`glassformer serve` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ports import free_port


class ServerProcess:
    """`glassformer serve` in its own process."""

    def __init__(self, *words: object) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "glassformer", "serve", *map(str, words)]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line.startswith(self.url), self.process.stderr.read()


@contextmanager
def serving(*words: object) -> Iterator[ServerProcess]:
    server = ServerProcess(*words)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()
        server.process.stderr.close()
