"""Compiled means one graph, no taps in it, and few of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from glassformer.glass import Recorder
from kit import Case, compiled, difference, inputs, our_answers, saved
from parity import bert, gpt2, marian
from sampling import mostly_slow

FAMILIES = {
    "encoder": bert.CASES[0],
    "decoder": gpt2.CASES[0],
    "seq2seq": marian.CASES[0],
}


class Counting:
    """A backend that runs the graph as it is and keeps it for counting."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph)
        return graph.forward

    def operations(self, number: int) -> list[str]:
        nodes = self.graphs[number].graph.nodes
        return [str(n.target) for n in nodes if n.op in ("call_function", "call_method")]


@pytest.fixture(params=mostly_slow(FAMILIES))
def case(request: pytest.FixtureRequest) -> Case:
    torch._dynamo.reset()
    return FAMILIES[request.param]


@pytest.mark.slow
def test_inductor_equals_eager(case: Case, tmp_path: Path) -> None:
    """It compiles C++: most of a minute of work for each family."""
    _, model = saved(case, tmp_path)
    given = inputs(case)
    assert difference(compiled(model, given, "inductor"), our_answers(model, given)) <= 5e-5


def test_a_keep_only_recorder_leaves_the_graph_as_it_is(case: Case, tmp_path: Path) -> None:
    """One graph without a recorder, one with; the same operations in both."""
    _, model = saved(case, tmp_path)
    batch = next(model.task.batches(**inputs(case)))
    backend = Counting()
    call = torch.compile(model.task, backend=backend, fullgraph=True)
    with torch.no_grad():
        plain = call(batch).logits
        assert len(backend.graphs) == 1
        recorder = Recorder(model.task, keep=lambda name: not name.endswith(("scores", "weights")))
        watched = call(batch, visitor=recorder).logits
    assert len(backend.graphs) == 2
    assert backend.operations(0) == backend.operations(1)
    assert torch.equal(plain, watched)
    assert sum(name.endswith("mixed") for name in recorder.tensors) >= 3


@pytest.mark.slow
def test_recording_between_compiled_calls_compiles_nothing(case: Case, tmp_path: Path) -> None:
    _, model = saved(case, tmp_path)
    given = inputs(case)
    batch = next(model.task.batches(**given))
    backend = Counting()
    call = torch.compile(model.task, backend=backend, fullgraph=True)
    with torch.no_grad():
        call(batch)
        one = {name: lists[:1] for name, lists in given.items()}
        model.task(next(model.task.batches(**one)), visitor=Recorder(model.task))
        call(batch)
    assert len(backend.graphs) == 1


@pytest.mark.parametrize("count", mostly_slow([30, 200]))
def test_fixed_shapes_compile_at_most_three_times(case: Case, tmp_path: Path, count: int) -> None:
    """Rows of a fixed size: the tail is one filler text, empty texts fill up their number."""
    _, model = saved(case, tmp_path)
    backend = Counting()
    call = torch.compile(model.task, backend=backend, fullgraph=True)
    draw = random.Random(0)
    with torch.no_grad():
        for _ in range(count):
            batch = static_batch(draw, rows=48, texts=24)
            if case is FAMILIES["seq2seq"]:
                batch = replace(batch, source=static_batch(draw, rows=48, texts=24))
            call(batch)
    assert len(backend.graphs) <= 3


def static_batch(draw: random.Random, *, rows: int, texts: int) -> gf.Batch:
    lengths = []
    while sum(lengths) < rows:
        lengths.append(min(draw.randint(2, 17), rows - sum(lengths)))
    longest = next(bucket for bucket in (4, 8, 16, 17) if max(lengths) <= bucket)
    tokens = torch.tensor([draw.randrange(3, 101) for _ in range(rows)])
    return gf.Batch(tokens, gf.Sequences.of(lengths, texts=texts, longest=longest))


@pytest.mark.slow
@pytest.mark.parametrize("count", mostly_slow([30, 200]))
def test_free_lengths_compile_at_most_three_times(case: Case, tmp_path: Path, count: int) -> None:
    """Rows of any size, as a user would give them: shapes become symbols."""
    _, model = saved(case, tmp_path)
    backend = Counting()
    call = torch.compile(model.task, backend=backend, fullgraph=True)
    draw = random.Random(0)

    def ragged(texts: int) -> list[list[int]]:
        return [[draw.randrange(3, 101) for _ in range(draw.randint(2, 17))] for _ in range(texts)]

    with torch.no_grad():
        for _ in range(count):
            texts = draw.randint(3, 9)
            targets = ragged(texts) if case is FAMILIES["seq2seq"] else None
            for batch in model.task.batches(ragged(texts), targets=targets):
                call(batch)
    assert len(backend.graphs) <= 3


@pytest.mark.slow
def test_gradients_through_a_compiled_graph(case: Case, tmp_path: Path) -> None:
    _, model = saved(case, tmp_path)
    batch = next(model.task.batches(**inputs(case)))
    grads = []
    for call in (model.task, torch.compile(model.task, backend="aot_eager", fullgraph=True)):
        model.zero_grad()
        call(batch).logits.square().mean().backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert difference(grads[1], grads[0]) <= 1e-4 * max(g.abs().max().item() for g in grads[0])
