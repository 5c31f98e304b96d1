"""Memory of the studio under many different requests: does it stay where it is?

    python benchmarks/soak.py                2,000 requests, all shipped models
    python benchmarks/soak.py --tiny         a few, with the toys, to check that it runs

Prints the resident memory of the server after each tenth of the requests. Each time the studio
keeps the same sixteen runs, so that only what is left behind differs.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WORDS = (
    "the", "a", "cat", "dog", "man", "river", "bank", "sat", "ran", "on", "in", "of", "to", "and",
    "was", "[MASK]", "money", "good", "12", ",", ".", "!",
)  # fmt: skip
PORT = 8_699
KEPT = 16  # runs that the studio keeps
COUNTS = {"full": 2_000, "tiny": 40}


class Client:
    """Requests as the page sends them."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.statuses: collections.Counter[int] = collections.Counter()

    def ask(self, path: str, body: object = None) -> Any:
        headers = {"Origin": self.origin, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body)
        self.connection.request("GET" if body is None else "POST", f"/api/{path}", data, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        self.statuses[answer.status] += 1
        is_json = answer.headers.get_content_type() == "application/json"
        return json.loads(content) if is_json else None


def text(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))


def requests(client: Client, draw: random.Random) -> Iterator[None]:
    """Runs with and without interventions, and everything that is asked about a run."""
    models = client.ask("models")["models"]
    yield
    while True:
        model = draw.choice(models)
        stack = draw.choice(model["stacks"])
        off = [[stack["name"], draw.randrange(stack["layers"]), draw.randrange(stack["heads"])]]
        body = {"model": model["id"], "text": text(draw), "off": off if draw.random() < 0.3 else []}
        run = client.ask("runs", body)
        yield
        if "run" not in run:
            continue
        place = "/".join(map(str, off[0]))
        for path in draw.sample(
            ["measures", f"map/{stack['name']}", f"head/{place}", f"row/{place}/0", "lens",
             "lens/0", f"numbers/{place}/0", "surprisal", "alignment", "python", "trace"], 5,
        ):  # fmt: skip
            client.ask(f"runs/{run['run']}/{path}")
            yield
        if draw.random() < 0.3:
            client.ask("shuffles", {"run": run["run"], "seed": draw.randrange(100)})
            yield
        if draw.random() < 0.3:
            client.ask(
                "generations",
                {"model": model["id"], "text": text(draw), "max_new_tokens": draw.randint(1, 8)},
            )
            yield


def fill(client: Client) -> None:
    """Replace the runs that the studio keeps by short ones, the same each time."""
    model = client.ask("models")["models"][0]["id"]
    for number in range(KEPT):
        client.ask("runs", {"model": model, "text": " ".join(WORDS[: number + 1])})


@contextmanager
def studio(given: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "glassformer", "studio", *given, "--no-open"]
    process = subprocess.Popen(
        [*command, "--port", str(PORT)], stdout=subprocess.DEVNULL, env=dict(os.environ)
    )
    try:
        while process.poll() is None:
            try:
                Client(PORT).ask("models")
                break
            except OSError:
                time.sleep(0.3)
        yield process
    finally:
        process.terminate()
        process.wait()


def resident(process: subprocess.Popen[bytes]) -> float:
    """MB in memory (Linux)."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args().tiny
    count = COUNTS["tiny" if tiny else "full"]
    with studio(["--toys"] if tiny else []) as process:
        client = Client(PORT)
        asked = requests(client, random.Random(0))
        sizes = []
        for i in range(count):
            next(asked)
            if (i + 1) % (count // 10) == 0:
                fill(client)
                sizes.append(resident(process))
        print("MB after each tenth:", " ".join(f"{size:.0f}" for size in sizes))
        print(f"from {sizes[0]:.0f} MB to {sizes[-1]:.0f} MB: {sizes[-1] / sizes[0] - 1:+.1%}")
        print("answers:", dict(sorted(client.statuses.items())))


if __name__ == "__main__":
    main()
