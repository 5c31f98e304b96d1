"""The shipped models: estimates against brute force, circuits, and models with random weights."""

import random
from dataclasses import replace

import pytest
import torch

import glassformer as gf
from glassformer.interpret.circuits import Circuit, edge_effects
from glassformer.interpret.contrast import ask_pair
from glassformer.interpret.patching import sweep
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
# Of the same kind, about other words.
OTHERS = {
    "gf-encoder": (
        "She opened the [MASK] with a key.",
        "She opened the [MASK] with a pen.",
    ),
    "gf-decoder": ("In the morning he went to the", "In the evening he went to the"),
    "gf-en-ru": (("The boy is reading.", ""), ("The girl is reading.", "")),
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
def test_a_fifth_of_the_edges_is_a_circuit_and_random_edges_are_none(name: str) -> None:
    effects = edge_effects(gf.load(name), *PAIRS[name])
    count = len(effects.edges) // 5
    assert abs(effects.circuit(count).faithfulness - 1) <= 0.25
    for seed in range(5):
        chosen = random.Random(seed).sample(effects.edges, count)
        assert abs(Circuit(effects, chosen).faithfulness) <= 0.1
    assert abs(Circuit(effects, effects.edges[-count:]).faithfulness) <= 0.05


@pytest.mark.parametrize("name", ["gf-encoder", "gf-en-ru"])
def test_random_weights_have_nothing_to_explain(name: str) -> None:
    """Their few strongest edges may be faithful, but to a difference that is hardly there."""
    model = gf.load(name)
    clean, corrupted = ask_pair(model, *PAIRS[name])
    whole = clean.value() - corrupted.value()
    for seed in range(3):
        torch.manual_seed(seed)
        untrained = gf.Model(gf.build_task(model.config, model.task.spec), model.tokenizer).eval()
        pair = ask_pair(untrained, *PAIRS[name], clean.answer, clean.other)
        assert abs(pair[0].value() - pair[1].value()) <= 0.01 * abs(whole)


@pytest.mark.parametrize("name", ["gf-encoder", "gf-decoder"])
def test_edges_that_random_weights_choose_are_no_circuit(name: str) -> None:
    """Of the translator's single target token the wiring alone decides much: it is left out."""
    effects = edge_effects(gf.load(name), *PAIRS[name])
    count = len(effects.edges) // 5
    own = effects.circuit(count).faithfulness
    for seed in range(3):
        assert abs(effects.random_weight_control(count, seed)) <= 0.2 < own - 0.4


@pytest.mark.parametrize("name", PAIRS)
def test_a_shuffled_pair_gives_a_flat_sweep(name: str) -> None:
    """The texts of one pair, and the words of another: no patch moves these."""
    model = gf.load(name)
    pair, (stranger, _) = ask_pair(model, *PAIRS[name]), ask_pair(model, *OTHERS[name])
    own = sweep(*pair)
    assert own.recovered.max() >= 0.9
    shuffled = sweep(
        *(replace(each, answer=stranger.answer, other=stranger.other) for each in pair)
    )
    assert shuffled.effect.abs().max() <= 0.15 * abs(own.clean - own.corrupted)
