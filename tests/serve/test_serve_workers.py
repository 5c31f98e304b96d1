"""Several processes behind one port: one that dies is replaced, and nobody else notices."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from commands import refused
from ports import free_port
from serve.processes import ServerProcess, serving

pytestmark = pytest.mark.slow
ASK = {"model": "gf-decoder", "prompt": "Once", "max_tokens": 20, "temperature": 0}


def workers(server: ServerProcess) -> set[int]:
    """The ids of the worker processes."""
    parent = server.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    }


def accepting(server: ServerProcess) -> None:
    assert httpx.get(f"{server.url}/ready", timeout=60).status_code == 200


def wait_for(condition) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


class Load:
    """Clients with a new connection for each request, until the context ends."""

    def __init__(self, url: str, clients: int = 4) -> None:
        self.url, self.clients, self.stop = url, clients, threading.Event()
        self.answers: Counter[str] = Counter()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self.clients)))

    async def _client(self) -> None:
        while not self.stop.is_set():
            async with httpx.AsyncClient(timeout=120) as http:
                try:
                    answer = await http.post(f"{self.url}/v1/completions", json=ASK)
                    whole = answer.status_code != 200 or answer.json()["choices"][0]["text"]
                    assert whole
                    self.answers[str(answer.status_code)] += 1
                except httpx.TransportError as error:
                    self.answers[type(error).__name__] += 1

    def __enter__(self) -> Load:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def counted(server: ServerProcess) -> int:
    """Requests to the completions, summed over the workers."""
    text = httpx.get(f"{server.url}/metrics").text
    lines = re.findall(r'te_request_count_total{.*path="/v1/completions".*} (\S+)', text)
    return round(sum(map(float, lines)))


def test_a_worker_that_is_killed_is_replaced() -> None:
    with serving("gf-decoder", "--workers", 2) as server:
        threading.Thread(target=server.process.stderr.read, daemon=True).start()
        before = workers(server)
        assert len(before) == 2
        with Load(server.url) as load:
            wait_for(lambda: load.answers["200"] > 20)
            victim = min(before)
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda: len(workers(server)) == 2 and victim not in workers(server))
            answered = load.answers["200"]
            wait_for(lambda: load.answers["200"] > answered + 20)
        accepting(server)
        # Its own requests are lost, at most one for each client, and no other.
        assert set(load.answers) <= {"200", "RemoteProtocolError", "ReadError"}
        assert load.answers.total() - load.answers["200"] <= load.clients
        assert counted(server) == load.answers["200"]
        text = httpx.get(f"{server.url}/metrics").text
        assert 'vllm:num_requests_running{model_name="gf-decoder"} 0.0' in text
        load_model = httpx.post(f"{server.url}/models/load", json={"model": "gf-decoder"})
        assert load_model.status_code == 403
        server.process.terminate()
        assert server.process.wait(60) == 0


def test_workers_are_replaced_one_after_another_and_none_loses_a_request() -> None:
    with serving("gf-decoder", "--workers", 2) as server:
        threading.Thread(target=server.process.stderr.read, daemon=True).start()
        with Load(server.url) as load:
            for _ in range(2):
                before = workers(server)
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda before=before: not before & workers(server))
        assert load.answers["200"] > 20
        assert set(load.answers) <= {"200", "503"}
        server.process.terminate()
        assert server.process.wait(60) == 0


def test_workers_end_with_their_supervisor() -> None:
    with serving("gf-encoder", "--workers", 2) as server:
        every = workers(server)
        server.process.kill()
        wait_for(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in every))


def test_a_worker_that_cannot_start_ends_the_command() -> None:
    words = ("gf-encodr", "--workers", 2, "--port", free_port())
    assert "did you mean gf-encoder" in refused("serve", *words, code=1)
