"""A number depends on its keys and on nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.hashing import below, mix, shuffled, uniform

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4)


@given(KEYS, st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_a_number_does_not_depend_on_its_neighbours(keys, places):
    whole = mix(*keys, np.array(places))
    assert whole.tolist() == [int(mix(*keys, place)) for place in places]


def test_the_numbers_stay_the_same_for_ever():
    """Runs are resumed with other versions: these must not move."""
    assert [int(mix(0)), int(mix(1, 2)), int(mix(-1, 0, 7))] == [
        9_248_179_162_272_254_404,
        17_286_951_778_007_540_066,
        14_536_018_820_142_964_766,
    ]


@given(KEYS, st.integers(0, 3), st.integers(1, 2**40))
def test_another_key_gives_another_number(keys, which, change):
    other = list(keys)
    other[which % len(keys)] = (other[which % len(keys)] + change) % 2**62
    if other != keys:
        assert int(mix(*keys)) != int(mix(*other))
    if len(set(keys)) > 1:
        assert int(mix(*keys)) != int(mix(*keys[::-1])) or keys == keys[::-1]


def test_uniform_numbers_are_uniform_and_not_related():
    found = uniform(3, np.arange(200_000))
    assert found.min() >= 0 and found.max() < 1
    counts = np.histogram(found, 100, (0, 1))[0]
    assert abs(counts - 2_000).max() < 6 * 2_000**0.5
    for lag in (1, 2, 1024):
        assert abs(np.corrcoef(found[:-lag], found[lag:])[0, 1]) < 0.012
    assert abs(np.corrcoef(found, uniform(4, np.arange(200_000)))[0, 1]) < 0.012


@given(st.integers(1, 2**50), KEYS)
def test_below_stays_below(limit, keys):
    assert 0 <= int(below(limit, *keys)) < limit


def test_below_reaches_everything_equally():
    counts = np.bincount(below(7, 5, np.arange(70_000)), minlength=7)
    assert abs(counts - 10_000).max() < 600


@given(st.integers(0, 200), KEYS)
def test_shuffled_is_a_permutation(count, keys):
    assert sorted(shuffled(count, *keys).tolist()) == list(range(count))


def test_shuffles_differ_from_epoch_to_epoch():
    orders = {tuple(shuffled(20, 0, epoch).tolist()) for epoch in range(50)}
    assert len(orders) == 50


@pytest.mark.parametrize("place", [0, 10, 19])
def test_every_place_of_a_shuffle_sees_everything(place):
    seen = {int(shuffled(20, 0, epoch)[place]) for epoch in range(300)}
    assert seen == set(range(20))
