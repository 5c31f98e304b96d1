"""Many clients at once: the same answers as alone, and a clear refusal where there is no room."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.generate.job import prepare
from glassformer.serve.host import HostOptions
from glassformer.serve.scheduler import Scheduler
from glassformer.serve.work import GenerationWork

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "one",
    "dog",
    "run",
    "far",
    "from",
    "its",
    "home",
    "by",
    "the",
    "sea",
]


def text(number: int) -> str:
    return " ".join(
        WORDS[(number * 7 + i * (1 + number % 3)) % len(WORDS)] for i in range(3 + number % 9)
    )


async def ask(http: httpx.AsyncClient, number: int) -> Any:
    """A request by its number: a kind, a text and settings."""
    prompt, kind = text(number), number % 5
    if kind == 0:
        body = {"model": "gf-encoder", "input": [prompt, text(number + 1)]}
        rows = (await http.post("/v1/embeddings", json=body)).json()["data"]
        return np.array([row["embedding"] for row in rows])
    if kind == 1:
        body = {"q": prompt, "source": "en", "target": "ru"}
        return (await http.post("/translate", json=body)).json()["translatedText"]
    body = {"model": "gf-decoder", "prompt": prompt, "max_tokens": 3 + number % 11, "seed": number}
    body["temperature"] = 0 if kind == 2 else 0.9
    if kind == 3:
        body["top_p"] = 0.8
    if kind < 4:
        return (await http.post("/v1/completions", json=body)).json()["choices"][0]["text"]
    pieces = ""
    async with http.stream("POST", "/v1/completions", json={**body, "stream": True}) as events:
        async for line in events.aiter_lines():
            if line.startswith("data: {"):
                pieces += json.loads(line[6:])["choices"][0]["text"]
    return pieces


def alone(models: dict[str, gf.Model], number: int) -> Any:
    prompt, kind = text(number), number % 5
    if kind == 0:
        return models["gf-encoder"].embed([prompt, text(number + 1)]).numpy()
    if kind == 1:
        return models["gf-en-ru"].translate(prompt)[0].text
    settings: dict[str, Any] = {"max_new_tokens": 3 + number % 11}
    if kind != 2:
        settings |= {"do_sample": True, "temperature": 0.9, "seed": number}
    if kind == 3:
        settings["top_p"] = 0.8
    return models["gf-decoder"].generate(prompt, **settings)[0].text


async def ask_all(url: str, count: int) -> list[Any]:
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as http:
        return await asyncio.gather(*(ask(http, number) for number in range(count)))


@pytest.mark.parametrize("count", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_the_same_answers_under_load(server, models, count) -> None:
    answers = asyncio.run(ask_all(server.url, count))
    for number, answer in enumerate(answers):
        expected = alone(models, number)
        if isinstance(expected, str):
            assert answer == expected, number
        else:
            assert np.allclose(answer, expected, atol=1e-4), number


def test_a_full_queue_refuses_at_once(client) -> None:
    """The model is held; one request waits, and the next one is too much."""
    http, host = client("gf-encoder", options=HostOptions(queue_tokens=80))
    scheduler, go = host.models["gf-encoder"].scheduler, threading.Event()
    calls = scheduler._calls
    scheduler._calls = lambda: calls() if go.wait(60) else 0
    answers: list[httpx.Response] = []
    body = {"inputs": "the cat sat on the mat and saw one dog run far from its home"}
    waiting = [
        threading.Thread(target=lambda: answers.append(http.post("/embed", json=body)))
        for _ in range(2)
    ]
    for thread in waiting:
        thread.start()
    while len(scheduler.queue) < 2:
        time.sleep(0.01)
    refused = http.post("/embed", json={"inputs": ["the cat sat on the mat by the sea"] * 5})
    assert refused.status_code == 429 and refused.json()["error_type"] == "Overloaded"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    large = http.post("/embed", json={"inputs": ["the cat sat on the mat"] * 50})
    assert large.status_code == 413
    go.set()
    for thread in waiting:
        thread.join()
    assert [each.status_code for each in answers] == [200, 200]
    assert http.post("/embed", json=body).status_code == 200


def test_clients_take_turns(client) -> None:
    """The second client's only text is not behind all texts of the first."""
    from glassformer.serve.queueing import FairQueue
    from glassformer.serve.work import CallWork

    async def put() -> list[str]:
        queue, later = FairQueue(1_000), time.monotonic() + 60
        assert queue.put(CallWork("first", later, "embed", ["x"] * 5, [2] * 5, {}))
        assert queue.put(CallWork("second", later, "embed", ["x"], [2], {}))
        assert not queue.put(CallWork("first", later, "embed", ["x"], [495], {}))
        order = []
        while unit := queue.take("call", 1):
            order.append(unit[0].work.client)
        assert queue.tokens == 0 and not queue.by_client
        return order

    assert asyncio.run(put())[:3] == ["first", "second", "first"]


def test_a_client_that_leaves_is_out_of_the_batch_within_two_steps(models) -> None:
    model = models["gf-decoder"]

    async def leave() -> None:
        scheduler = Scheduler(model, "gf-decoder")
        scheduler.start()
        limit, later = scheduler.context, time.monotonic() + 60
        options = {"max_new_tokens": 200, "eos_token_id": []}
        jobs = [prepare(model.task, model.tokenizer, model.origin, t, options) for t in ("A", "B")]
        gone, stays = (GenerationWork("c", later, job, limit=limit, streams=True) for job in jobs)
        for work in (gone, stays):
            scheduler.submit(work)
        await gone.choices.get()
        gone.cancelled, at = True, scheduler.steps
        while any(unit.work is gone for unit in list(scheduler.running.values())):
            await asyncio.sleep(0)
        assert scheduler.steps - at <= 2
        stays.deadline = 0.0  # and one that is late
        with pytest.raises(Exception, match="deadline"):
            await stays.result
        scheduler.close()
        scheduler.join()
        assert not scheduler.running

    asyncio.run(leave())


def test_weights_that_became_nan_are_an_error_of_their_model_alone(client, heads: Path) -> None:
    http, host = client("gf-decoder", "gf-encoder", root=heads)
    ask = {"model": "gf-decoder", "prompt": "A", "max_tokens": 2}
    assert http.post("/v1/completions", json=ask).status_code == 200
    for name in ("gf-decoder", "gf-encoder"):
        weights = next(host.models[name].model.task.parameters())
        before = weights.data.clone()
        weights.data.fill_(torch.nan)
        if name == "gf-decoder":
            answer = http.post("/v1/completions", json=ask)
            assert answer.status_code == 424 and "NaN" in answer.json()["error"]["message"]
            assert http.post("/embed?model=gf-encoder", json={"inputs": "a"}).status_code == 200
        else:
            answer = http.post("/embed?model=gf-encoder", json={"inputs": "a"})
            assert answer.status_code == 424 and answer.json()["error_type"] == "Backend"
        weights.data.copy_(before)
    assert http.post("/v1/completions", json=ask).status_code == 200


def test_models_are_loaded_and_unloaded_by_name(client, heads: Path) -> None:
    http, _ = client("gf-encoder", root=heads)
    ask = {"text": "Ramona lives in Paris."}
    assert http.post("/tag", json=ask).status_code == 404
    assert http.post("/models/load", json={"model": "tagger"}).json() == {"status": "loaded"}
    assert http.post("/tag", json=ask).status_code == 200
    names = [each["id"] for each in http.get("/v1/models").json()["data"]]
    assert names == ["gf-encoder", "tagger"]
    for name in (
        "../heads",
        "..",
        "/etc",
        "tagger/../reader",
        "tagger\\..",
        "gf-decoder",
        ".",
        "a\0b",
    ):
        answer = http.post("/models/load", json={"model": name})
        assert answer.status_code == 404, name
    assert http.post("/models/unload", json={"model": "tagger"}).status_code == 200
    assert http.post("/models/unload", json={"model": "tagger"}).status_code == 404
    assert http.post("/tag", json=ask).status_code == 404


def test_a_folder_that_is_replaced_changes_nothing(client, heads: Path) -> None:
    http, _ = client("gf-encoder", root=heads)
    http.post("/models/load", json={"model": "classifier"})
    before = http.post("/classify", json={"text": "A film."}).json()
    file = heads / "classifier" / "model.safetensors"
    whole = file.read_bytes()
    try:
        file.write_bytes(b"\0" * 100)
        assert http.post("/classify", json={"text": "A film."}).json() == before
        http.post("/models/unload", json={"model": "classifier"})
        broken = http.post("/models/load", json={"model": "classifier"})
        assert broken.status_code == 424 and str(heads) not in broken.json()["error"]
        assert http.post("/embed", json={"inputs": "a"}).status_code == 200
    finally:
        file.write_bytes(whole)
