"""The shipped models: estimates against brute force, circuits, and models with random weights."""

import random

import pytest
import torch

import glassformer as gf
from glassformer.interpret.circuits import edge_effects
from glassformer.interpret.statistics import rank_correlation

PAIRS = {
    "gf-encoder": (
        "The cat sat on the table and the [MASK] was hungry.",
        "The man sat on the table and the [MASK] was hungry.",
    ),
    "gf-decoder": (
        "The boy was old, and his mother said that",
        "The girl was old, and his mother said that",
    ),
    "gf-en-ru": (("The cat is sleeping.", ""), ("The dog is sleeping.", "")),
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PAIRS)
def test_the_estimate_ranks_edges_as_brute_force_does(name: str) -> None:
    model = gf.load(name)
    effects = edge_effects(model, *PAIRS[name], steps=1)
    edges = random.Random(0).sample(effects.edges, 200)
    measured = torch.tensor([effects.measured(edge) for edge in edges])
    estimated = torch.tensor([edge.effect for edge in edges])
    assert rank_correlation(estimated, measured) >= 0.9


@pytest.mark.parametrize("name", PAIRS)
def test_a_fifth_of_the_edges_is_a_circuit_and_random_weights_have_none(name: str) -> None:
    """Random weights hardly tell the two texts apart: there is nothing for edges to explain."""
    model = gf.load(name)
    effects = edge_effects(model, *PAIRS[name])
    whole = effects.clean.value() - effects.corrupted.value()
    circuit = effects.circuit(len(effects.edges) // 5)
    assert abs(circuit.faithfulness - 1) <= 0.25
    weakest = effects.value(effects.edges[-len(circuit.edges) :]) - effects.corrupted.value()
    assert abs(weakest / whole) <= 0.05
    torch.manual_seed(0)
    untrained = gf.Model(gf.build_task(model.config, model.task.spec), model.tokenizer).eval()
    answers = (effects.clean.answer, effects.clean.other)
    control = edge_effects(untrained, *PAIRS[name], *answers)
    explained = control.value(control.edges[: len(circuit.edges)]) - control.corrupted.value()
    assert abs(explained / whole) <= 0.01
