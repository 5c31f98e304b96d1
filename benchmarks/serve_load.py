"""The model server under pressure: overload, a long run, idle connections, restarts.

    python benchmarks/serve_load.py overload --seconds 300      three times as many requests as fit
    python benchmarks/serve_load.py soak --seconds 1800         is its memory the same at the end?
    python benchmarks/serve_load.py idle --count 10000          connections that send nothing
    python benchmarks/serve_load.py restarts --count 50         are accepted requests lost?
    python benchmarks/serve_load.py --tiny                      all of them, in a few seconds

overload    texts of 32 tokens from gf-decoder. Capacity is what twice as many clients get as the
            server has slots, each of which waits for its answer; then requests arrive at random,
            first half as many as fit, then three times as many; about five wait in the queue
soak        embeddings, translations and texts, streamed or not, from four clients
idle        while the connections are open, others are answered
restarts    two workers are replaced one after another, again and again, while four clients send
            requests, each on a new connection
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog", "run", "far", "home")
NEW_TOKENS = 32
SLOTS = 8
QUEUE = 5 * (9 + NEW_TOKENS)  # tokens: about five requests wait


@dataclass
class Server:
    url: str
    pid: int
    log: Path

    def refusals(self) -> list[float]:
        """Milliseconds of each request that was refused with 429, by the server's clock."""
        rows = map(json.loads, self.log.read_text().splitlines())
        return [row["ms"] for row in rows if row.get("status") == 429]

    def resident(self) -> float:
        """MB in memory (Linux)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def workers(self) -> set[str]:
        """The ids of its worker processes (Linux)."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return {each for each in children if b"spawn_main" in cmdline(each)}

    def counted(self, path: str) -> int:
        """Requests to a path, as the server counts them."""
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        lines = re.findall(rf'te_request_count_total{{.*path="{path}".*}} (\S+)', text)
        return round(sum(map(float, lines)))


def cmdline(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


@contextmanager
def serving(*words: str) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "glassformer", "serve", *words, "--port", str(port)]
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield Server(f"http://127.0.0.1:{port}", process.pid, Path(log.name))
        finally:
            process.terminate()
            process.wait(60)


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(3, 12)))


def story(draw: random.Random) -> dict[str, object]:
    body = {"model": "gf-decoder", "prompt": sentence(draw), "max_tokens": NEW_TOKENS}
    return {**body, "temperature": 0, "seed": draw.randrange(1_000)}


@dataclass
class Answer:
    status: int
    seconds: float
    start: float = 0.0  # seconds after the first request


async def ask(http: httpx.AsyncClient, path: str, body: dict[str, object]) -> Answer:
    """One request; its answer must be its own."""
    start, id = time.perf_counter(), uuid.uuid4().hex
    answer = await http.post(path, json=body, headers={"x-request-id": id})
    assert answer.headers["x-request-id"] == id
    return Answer(answer.status_code, time.perf_counter() - start)


def client(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=2_000, max_keepalive_connections=2_000)
    return httpx.AsyncClient(base_url=url, timeout=300, limits=limits)


class LeanClient:
    """Requests that cost their sender little: it runs on the same cores as the server."""

    def __init__(self, url: str) -> None:
        self.port = int(url.rpartition(":")[2])
        # When each was used last: the server closes a connection that is idle for five seconds.
        self.idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, path: str, body: dict[str, object]) -> Answer:
        """One request; its answer must be its own."""
        start, id, content = time.perf_counter(), uuid.uuid4().hex, json.dumps(body)
        if self.idle and start - self.idle[-1][0] < 2:
            _, reader, writer = self.idle.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nx-request-id: {id}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
            f"{content}".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int(re.findall(r"content-length: (\d+)", head)[0]))
        assert f"x-request-id: {id}" in head
        end = time.perf_counter()
        self.idle.append((end, reader, writer))
        return Answer(int(head.split()[1]), end - start)


async def closed_loop(url: str, seconds: float) -> float:
    """Requests per second of so many clients that all slots are busy; each awaits its answer."""
    end, done, http = time.monotonic() + seconds, 0, LeanClient(url)

    async def one(number: int) -> None:
        nonlocal done
        draw = random.Random(number)
        while time.monotonic() < end:
            answer = await http.ask("/v1/completions", story(draw))
            done += answer.status == 200

    start = time.monotonic()
    await asyncio.gather(*map(one, range(2 * SLOTS)))
    return done / (time.monotonic() - start)


async def sent(http: LeanClient, start: float, body: dict[str, object]) -> Answer:
    return replace(await http.ask("/v1/completions", body), start=start)


async def open_loop(url: str, rate: float, seconds: float) -> list[Answer]:
    """Requests that arrive at random, `rate` each second, whatever becomes of the others."""
    draw, tasks, http = random.Random(0), [], LeanClient(url)
    start = due = time.monotonic()
    while due - start < seconds:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(sent(http, due - start, story(draw))))
        due += draw.expovariate(rate)
    return await asyncio.gather(*tasks)


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def report(name: str, answers: list[Answer], seconds: float) -> tuple[float, float]:
    """Prints the answers; returns the accepted ones per second, and their 99th percentile."""
    statuses = collections.Counter(answer.status for answer in answers)
    good = [answer.seconds for answer in answers if answer.status == 200]
    refused = [answer.seconds * 1000 for answer in answers if answer.status == 429]
    p99 = percentile(good, 99)
    line = (
        f"{name}: {dict(statuses)}, {len(good) / seconds:.1f}/s, p50 {percentile(good, 50):.3f} s"
    )
    line += f", p99 {p99:.3f} s"
    if len(refused) > 1:
        values = ", ".join(f"p{p} {percentile(refused, p):.1f} ms" for p in (50, 90, 99))
        line += f"; 429 in {values}"
    print(line, flush=True)
    return len(good) / seconds, p99


def overload(seconds: float) -> None:
    words, measured = ("gf-decoder", "--slots", str(SLOTS)), min(10.0, max(2.0, seconds / 10))
    with serving(*words) as server:
        asyncio.run(closed_loop(server.url, measured / 2))  # warm
        capacity = asyncio.run(closed_loop(server.url, measured))
        print(f"capacity: {capacity:.1f}/s", flush=True)
    before_and_after = [capacity]
    with serving(*words, "--queue-tokens", str(QUEUE)) as server:
        quiet = asyncio.run(open_loop(server.url, capacity / 2, measured))
        _, usual = report("half of it", quiet, measured)
        before = server.counted("/v1/completions")
        answers = asyncio.run(open_loop(server.url, 3 * capacity, seconds))
        goodput, p99 = report("three times", answers, seconds)
        fifths = [0] * 5  # does it become slower?
        for answer in answers:
            fifths[min(4, int(5 * answer.start / seconds))] += answer.status == 200
        print("accepted in each fifth of the time:", *fifths)
        refused = server.refusals()
        values = ", ".join(f"p{p} {percentile(refused, p):.1f} ms" for p in (50, 90, 99))
        print(f"429 by the server's clock: {values}")
        counted = server.counted("/v1/completions") - before
        print(f"goodput {goodput:.1f}/s, p99 {p99 / usual:.2f} x")
        print(f"sent {len(answers)}, answered {counted} by the server's count")
        assert counted == len(answers)
    with serving(*words) as server:  # other work on the machine may have changed it
        asyncio.run(closed_loop(server.url, measured / 4))
        before_and_after.append(asyncio.run(closed_loop(server.url, measured)))
        capacity = statistics.mean(before_and_after)
        print(f"capacity before and after: {before_and_after[0]:.1f}, {before_and_after[1]:.1f}/s")
        print(f"goodput {goodput / capacity:.0%} of their mean")


MIX = (
    ("/embed", lambda draw: {"inputs": [sentence(draw)] * draw.randint(1, 8)}),
    ("/translate", lambda draw: {"q": sentence(draw), "source": "en", "target": "ru"}),
    ("/v1/completions", story),
    ("/v1/completions", lambda draw: {**story(draw), "stream": True}),
)


async def mixed(server: Server, seconds: float) -> None:
    """Four clients with a pause between two requests; prints the memory after each tenth."""
    statuses: collections.Counter[int] = collections.Counter()
    end, sizes = time.monotonic() + seconds, []
    async with client(server.url) as http:

        async def one(number: int) -> None:
            draw = random.Random(number)
            while time.monotonic() < end:
                path, make = draw.choice(MIX)
                statuses[(await ask(http, path, make(draw))).status] += 1
                await asyncio.sleep(draw.random() * 0.2)

        async def watch() -> None:
            for _ in range(10):
                await asyncio.sleep(seconds / 10)
                sizes.append(server.resident())

        await asyncio.gather(watch(), *map(one, range(4)))
    print("MB after each tenth:", " ".join(f"{size:.1f}" for size in sizes))
    print(f"from {sizes[0]:.1f} MB to {sizes[-1]:.1f} MB: {sizes[-1] / sizes[0] - 1:+.1%}")
    print("answers:", dict(statuses), flush=True)


def soak(seconds: float) -> None:
    with serving("gf-encoder", "gf-decoder", "gf-en-ru") as server:
        asyncio.run(mixed(server, seconds))


def idle(count: int) -> None:
    """Connections that send nothing, and those that have sent half of a request."""
    half = b"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n"
    with serving("gf-encoder") as server:
        port = int(server.url.rpartition(":")[2])
        seconds, open_now = [], []
        try:
            for number in range(count):
                each = socket.create_connection(("127.0.0.1", port))
                if number % 2:
                    each.sendall(half)
                open_now.append(each)
                if number % max(1, count // 20) == 0:
                    start = time.perf_counter()
                    answer = httpx.post(f"{server.url}/embed", json={"inputs": "a"}, timeout=60)
                    assert answer.status_code == 200
                    seconds.append(time.perf_counter() - start)
        finally:
            for each in open_now:
                each.close()
        slowest = max(seconds) * 1000
        print(
            f"{count} connections: {len(seconds)} others answered, the slowest in {slowest:.0f} ms"
        )


def restarts(count: int) -> None:
    with serving("gf-decoder", "--workers", "2") as server:
        answers = asyncio.run(restart(server, count))
    print(f"{count} restarts of two workers:", dict(answers), flush=True)


async def restart(server: Server, count: int) -> collections.Counter[str]:
    answers: collections.Counter[str] = collections.Counter()
    is_over = asyncio.Event()

    async def one(number: int) -> None:
        draw = random.Random(number)
        while not is_over.is_set():
            async with client(server.url) as http:
                try:
                    answers[str((await ask(http, "/v1/completions", story(draw))).status)] += 1
                except httpx.TransportError as error:
                    answers[type(error).__name__] += 1

    async def replace() -> None:
        for _ in range(count):
            before = server.workers()
            os.kill(server.pid, signal.SIGHUP)
            while before & server.workers():
                await asyncio.sleep(0.1)
        is_over.set()

    await asyncio.gather(replace(), *map(one, range(4)))
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["overload", "soak", "idle", "restarts"])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--count", type=int, help="10,000 connections, or 50 restarts")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    seconds, count = (1.0, 20) if options.tiny else (options.seconds, options.count)
    if options.what in (None, "overload"):
        overload(seconds)
    if options.what in (None, "soak"):
        soak(seconds)
    if options.what in (None, "idle"):
        idle(count or 10_000)
    if options.what in (None, "restarts"):
        restarts(1 if options.tiny else count or 50)


if __name__ == "__main__":
    main()
