"""Compiled steps of a CPU give the logits of those that are not compiled."""

from __future__ import annotations

import copy

import pytest
import torch

import glassformer as gf
from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import InputError
from glassformer.generate.engine import Engine
from glassformer.kernels.quantized import Method
from glassformer.tasks import build_task
from glassformer.tasks.base import Task
from glassformer.tasks.quantize import quantize

SIZES = {"vocab_size": 53, "width": 32, "depth": 2, "heads": 2, "mlp_width": 64, "max_length": 100}


@pytest.fixture(scope="module")
def task() -> Task:
    torch.manual_seed(0)
    task = build_task(ModelConfig(family="decoder", **SIZES), TaskConfig(kind="causal_lm"))
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task.eval()


def test_beams_of_a_single_call_are_not_compiled(task: Task) -> None:
    with pytest.raises(InputError, match=r"compiled = True: .* model.engine\(…, num_beams=…\)"):
        Engine(task, slots=4, capacity=9, beams=2, compiled=True)


def test_without_a_compiler_the_engine_is_refused(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InputError, match=r"there is no C\+\+ compiler: install g\+\+"):
        Engine(task, slots=1, capacity=9, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("texts", [1, 3])
@pytest.mark.parametrize("method", [None, "int8", "int4"])
def test_the_same_as_without_compilation(task: Task, texts: int, method: Method | None) -> None:
    if method is not None:
        task = copy.deepcopy(task)
        quantize(task, method)
    room = {"slots": texts, "capacity": 90}
    compiled, plain = Engine(task, **room, compiled=True), Engine(task, **room)
    assert not compiled.uses_cuda_graphs and not compiled.shrinks
    prompts = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3]][:texts]
    logits = [engine.read(prompts) for engine in (compiled, plain)]
    errors = []
    for _ in range(70):  # beyond the 64 tokens that are compiled first
        tokens = logits[1].argmax(-1)
        logits = [engine.step(tokens) for engine in (compiled, plain)]
        errors.append((logits[0] - logits[1]).abs().max() / logits[1].std())
    # An input between two integers of int8 may be rounded to the other one; most steps are equal.
    assert torch.stack(errors).median() <= 1e-3
    assert max(errors) <= (1e-3 if method is None else 0.05)
    assert compiled.cache.counts == plain.cache.counts


@pytest.mark.slow
@pytest.mark.parametrize("method", [None, "int8"])
def test_compiled_beams_are_the_same(method: Method | None) -> None:
    model = gf.load("gf-en-ru")
    if method is not None:
        model = model.quantize(method)
    texts = ["The cat sat on the mat.", "I read a book.", "It is cold.", "Where is the station?"]
    assert model.tokenizer is not None
    ids = model.tokenizer.ids(texts)
    settings = {"num_beams": 3, "max_new_tokens": 20}
    room = {"source_tokens": max(map(len, ids)), "num_beams": 3}
    engine = model.engine(3, 21, **room, compiled=True)
    for part in (ids, ids[:2]):
        ours = model.generate(part, engine=engine, **settings)
        exact = model.generate(part, **settings)
        assert [each.ids for each in ours] == [each.ids for each in exact]


@pytest.mark.slow
def test_models_of_other_sizes_after_each_other() -> None:
    """The compiler takes what has changed, such as the number of heads, for a symbol."""
    rotary, relative = {"position": "rotary", "key_heads": 2}, {"position": "relative"}
    kinds = [("decoder", 2, {}), ("decoder", 4, rotary), ("seq2seq", 4, relative)]
    for family, heads, more in [*kinds, ("seq2seq", 2, relative)]:
        config = ModelConfig(family=family, **SIZES | {"heads": heads, "depth": 1} | more)
        reads = family == "seq2seq"
        task = build_task(config, TaskConfig(kind="translation" if reads else "causal_lm")).eval()
        room = {"slots": 1, "capacity": 90, "memory_capacity": 8}
        engines = Engine(task, **room, compiled=True), Engine(task, **room)
        sources = [[7, 3, 2]] if reads else None
        logits = [engine.read([[3, 1, 4]], sources=sources) for engine in engines]
        for _ in range(3):
            tokens = logits[1].argmax(-1)
            logits = [engine.step(tokens) for engine in engines]
            torch.testing.assert_close(*logits, rtol=0, atol=1e-3 * float(logits[1].std()))
