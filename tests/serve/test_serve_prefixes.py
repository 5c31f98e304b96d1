"""Prompts that begin alike share what was read: the same texts, with less to read."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from glassformer.generate.engine import Engine
from glassformer.generate.prefixes import SHORTEST, PrefixStore
from glassformer.generate.sampling import Request, generate_tokens
from glassformer.generate.settings import Settings

BEGINNING = " ".join(["The old man and the dog went down to the river and sat on a stone."] * 3)
LENGTHS = st.lists(st.integers(1, 90), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def tiny() -> gf.Model:
    """Random weights, hot enough that every token depends on all before it."""
    torch.manual_seed(0)
    config = gf.load("gf-decoder").config.model_copy(update={"depth": 2, "vocab_size": 97})
    task = gf.build_task(config, gf.TaskConfig(kind="causal_lm"))
    with torch.no_grad():
        for weights in task.parameters():
            weights.normal_(0, 0.3)
    return gf.Model(task).eval()


def texts(model: gf.Model, prompts: list[list[int]], prefixes: PrefixStore | None) -> Any:
    rows: dict[int, list[int]] = {}
    plain = Settings.model_validate({"max_new_tokens": 4, "eos_token_id": []})
    engine = Engine(model.task, slots=3, capacity=128, prefixes=prefixes)
    requests = [Request(number, prompt, 4) for number, prompt in enumerate(prompts)]
    for choice in generate_tokens(engine, requests, plain):
        rows.setdefault(choice.request.number, []).append(choice.token)
    return rows


@settings(max_examples=25, deadline=None)
@given(lengths=LENGTHS, shared=st.integers(0, 90), seed=st.integers(0, 9))
def test_the_same_texts_with_and_without(tiny, lengths, shared, seed) -> None:
    draw = random.Random(seed)
    beginning = [draw.randrange(97) for _ in range(shared)]
    prompts = [(beginning + [draw.randrange(97) for _ in range(90)])[: n + 1] for n in lengths]
    prefixes = PrefixStore(600)
    alone = texts(tiny, prompts, None)
    for _ in range(2):
        assert texts(tiny, prompts, prefixes) == alone
        assert prefixes.tokens == sum(map(len, prefixes.prompts)) <= 600
    assert bool(prefixes.shared) == (max(map(len, prompts)) > SHORTEST)


def test_requests_that_begin_alike(client, models) -> None:
    http, host = client("gf-decoder")
    prefixes = host.models["gf-decoder"].scheduler.prefixes
    for end in ("One", "Two", "One"):
        ask = {"model": "gf-decoder", "prompt": f"{BEGINNING} {end}", "temperature": 0}
        answer = http.post("/v1/completions", json={**ask, "max_tokens": 8})
        expected = models["gf-decoder"].generate(ask["prompt"], max_new_tokens=8)[0].text
        assert answer.json()["choices"][0]["text"] == expected
    assert prefixes.shared > 2 * SHORTEST and len(prefixes.prompts) == 2


def test_nothing_that_is_nan_is_kept(tiny) -> None:
    prefixes = PrefixStore(300)
    weights = next(tiny.task.parameters())
    before = weights.data.clone()
    weights.data.fill_(torch.nan)
    Engine(tiny.task, slots=1, capacity=128, prefixes=prefixes).read([list(range(50))])
    weights.data.copy_(before)
    assert not prefixes.prompts
