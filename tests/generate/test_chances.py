"""Samples come as often as their chances say. The seeds are fixed: this is no gamble."""

import math

import pytest
import torch

import glassformer as gf
from sampling import mostly_slow

VOCAB, COUNT = 7, 4_000


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(5)
    config = gf.ModelConfig(
        family="decoder", vocab_size=VOCAB, width=8, depth=1, heads=2, mlp_width=8, max_length=16,
        init_std=0.8,
    )  # fmt: skip
    return gf.Model(gf.build_task(config, gf.TaskConfig(kind="causal_lm")).eval())


def chances(model, prompt, temperature=1.0, banned=()):
    scores = model.logits([prompt])[0][-1] / temperature
    scores[list(banned)] = -torch.inf
    return scores.softmax(-1).tolist()


def distance(counts, expected):
    """Pearson's chi-square over the pairs of tokens that can come."""
    assert all(counts.get(key, 0) == 0 for key, p in expected.items() if p == 0)
    total = sum(counts.values())
    return sum((counts.get(k, 0) - total * p) ** 2 / (total * p) for k, p in expected.items() if p)


@pytest.mark.parametrize(
    ("settings", "temperature", "banned"),
    mostly_slow(
        [({"suppress_tokens": [2]}, 1.0, (2,)), ({"temperature": 1.7}, 1.7, ()), ({}, 1.0, ())]
    ),
)
def test_two_tokens_in_a_row(model, settings, temperature, banned):
    prompt = [1, 4, 3]
    with torch.no_grad():
        first = chances(model, prompt, temperature, banned)
        second = [chances(model, [*prompt, i], temperature, banned) for i in range(VOCAB)]
    expected = {(i, j): first[i] * second[i][j] for i in range(VOCAB) for j in range(VOCAB)}
    found = model.generate(
        [prompt], do_sample=True, max_new_tokens=2, num_return_sequences=COUNT, batch_size=1000,
        seed=3, **settings,
    )  # fmt: skip
    counts = {}
    for each in found:
        counts[each.ids] = counts.get(each.ids, 0) + 1
    free = sum(p > 0 for p in expected.values()) - 1
    limit = free + 3.1 * math.sqrt(2 * free)  # one in a thousand is above
    assert distance(counts, expected) < limit
    wrong = {(i, j): first[j] * second[j][i] for i in range(VOCAB) for j in range(VOCAB)}
    assert banned or distance(counts, {k: p or 1e-9 for k, p in wrong.items()}) > 2 * limit


def test_seeds_are_as_good_as_samples(model):
    """One text for each of many seeds: the same chances."""
    prompt = [2, 2]
    with torch.no_grad():
        expected = {(i,): p for i, p in enumerate(chances(model, prompt))}
    counts = {}
    for seed in range(300):
        found = model.generate([prompt], do_sample=True, max_new_tokens=1, seed=seed)[0].ids
        counts[found] = counts.get(found, 0) + 1
    assert distance(counts, expected) < VOCAB - 1 + 3.1 * math.sqrt(2 * (VOCAB - 1))
