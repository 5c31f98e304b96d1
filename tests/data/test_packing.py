"""Windows cover all; a plan holds everything once; what is stored is what would be made."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.packing import (
    Samples,
    fill_rows,
    key_of,
    make_plan,
    store_plan,
    stored_plan,
    windows,
)
from glassformer.errors import ConfigError, InputError

SIZES = st.lists(st.integers(0, 60), max_size=12)


def offsets(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


# windows


@given(
    SIZES, st.integers(2, 20), st.integers(0, 1), st.integers(-1, 3), st.integers(0, 3),
    st.integers(0, 2),
)  # fmt: skip
def test_windows_cover_every_token_exactly_once(sizes, length, overlap, seed, epoch, without):
    """Where two windows share a token, the second only starts from it."""
    found = windows(
        offsets(sizes), length, overlap=overlap, seed=seed, epoch=epoch, without=without
    ).first
    told = np.zeros(sum(sizes), dtype=int)
    for start, size in found.tolist():
        assert overlap < size <= length
        told[start + overlap : start + size] += 1
    wanted = np.zeros(sum(sizes), dtype=int)
    for begin, size in zip(offsets(sizes)[:-1], sizes, strict=True):
        wanted[begin + overlap : max(begin + overlap, begin + size - without)] = 1
    assert told.tolist() == wanted.tolist()


@given(SIZES, st.integers(2, 20), st.integers(0, 3))
def test_windows_stay_inside_their_document(sizes, length, epoch):
    bounds = offsets(sizes)
    for start, size in windows(bounds, length, overlap=1, seed=0, epoch=epoch).first.tolist():
        document = np.searchsorted(bounds, start, "right") - 1
        assert start + size <= bounds[document + 1]


def test_evaluation_cuts_from_the_start():
    found = windows(offsets([10, 3]), 4, overlap=0, seed=-1, epoch=0).first
    assert found.tolist() == [[0, 4], [4, 4], [8, 2], [10, 3]]


def test_a_long_document_is_cut_elsewhere_in_every_epoch():
    cuts = {
        tuple(windows(offsets([1000]), 100, overlap=0, seed=0, epoch=epoch).first[:, 0].tolist())
        for epoch in range(30)
    }
    assert len(cuts) > 20


def test_the_cut_of_a_document_does_not_depend_on_those_behind_it():
    few, many = (
        windows(offsets(sizes), 8, overlap=0, seed=1, epoch=2).first
        for sizes in ([50, 30], [50, 30, 70])
    )
    assert many[: len(few)].tolist() == few.tolist()


@pytest.mark.parametrize(("length", "overlap"), [(0, 0), (1, 1), (-3, 0)])
def test_a_length_that_holds_nothing_is_refused(length, overlap):
    with pytest.raises(ConfigError, match=r"objective\.length"):
        windows(offsets([5]), length, overlap=overlap, seed=0, epoch=0)


# rows


@given(st.lists(st.integers(1, 9), max_size=40), st.integers(9, 30), st.integers(1, 6))
def test_rows_hold_as_many_as_fit(costs, budget, most):
    costs = np.array(costs, dtype=np.int64)
    begins = fill_rows(costs, budget, most)
    assert begins[0] == 0 and begins[-1] == len(costs) and (np.diff(begins) > 0).all()
    for i, (begin, end) in enumerate(pairwise(begins)):
        assert costs[begin:end].sum() <= budget and end - begin <= most
        if i < len(begins) - 2:
            assert costs[begin : end + 1].sum() > budget or end - begin == most


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=30),
    st.integers(9, 30),
)
def test_both_sides_of_a_pair_have_their_budget(costs, budget):
    costs = np.array(costs, dtype=np.int64)
    begins = fill_rows(costs, budget, 100)
    for begin, end in pairwise(begins):
        assert (costs[begin:end].sum(0) <= budget).all()


def test_a_text_longer_than_a_row_is_named():
    with pytest.raises(
        InputError, match=r"a text of 12 tokens .* row of 10: raise train\.micro_batch_tokens"
    ):
        fill_rows(np.array([3, 12]), 10, 5)


# plans


def plan_of(sizes, seed=0, epoch=0, budget=50):
    samples = windows(offsets(sizes), 20, overlap=0, seed=seed, epoch=epoch)
    return samples, make_plan(
        samples, samples.first[:, 1], budget=budget, most=8, seed=seed, epoch=epoch
    )


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(0, 4))
def test_every_sample_is_in_one_row_of_each_epoch(sizes, epoch):
    samples, plan = plan_of(sizes, epoch=epoch)
    rows = [plan.row(i).first for i in range(len(plan))]
    assert sorted(np.concatenate(rows).tolist()) == sorted(samples.first.tolist())
    assert all(row[:, 1].sum() <= 50 and len(row) <= 8 for row in rows)


def test_a_plan_is_shuffled_by_seed_and_epoch_but_not_for_evaluation():
    sizes = [7] * 40
    orders = [plan_of(sizes, seed, epoch)[1].samples.first.tolist()
              for seed, epoch in ((0, 0), (0, 1), (1, 0), (-1, 0))]  # fmt: skip
    assert orders[3] == sorted(orders[3])
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])
    assert orders[0] == plan_of(sizes, 0, 0)[1].samples.first.tolist()


def test_a_stored_plan_is_the_plan(tmp_path):
    _, plan = plan_of([33, 21, 50])
    pairs = Samples(plan.samples.first, plan.samples.first + 1, plan.samples.first[:, 1] % 2)
    for samples in (plan.samples, pairs):
        one = type(plan)(samples, plan.begins)
        store_plan(one, tmp_path / "deep" / "plan", "key")
        found = stored_plan(tmp_path / "deep" / "plan", "key")
        assert found is not None and found.begins.tolist() == one.begins.tolist()
        for name in ("first", "second", "follows"):
            ours, theirs = getattr(one.samples, name), getattr(found.samples, name)
            assert (ours is None) == (theirs is None)
            assert ours is None or ours.tolist() == theirs.tolist()
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["plan"]


def test_a_plan_of_other_settings_or_a_broken_one_is_not_used(tmp_path):
    path = tmp_path / "plan"
    assert stored_plan(path, "key") is None
    store_plan(plan_of([33])[1], path, "key")
    assert stored_plan(path, "other") is None
    whole = path.read_bytes()
    for damaged in (b"", whole[:7], whole[:-9], b"x" * len(whole)):
        path.write_bytes(damaged)
        assert stored_plan(path, "key") is None


def test_keys_tell_settings_apart():
    assert key_of(1, "a", (2,)) == key_of(1, "a", (2,)) != key_of(1, "a", (3,))


def test_a_plan_with_another_header_is_made_again(tmp_path):
    path = tmp_path / "plan"
    for dtype, shape in (("I64", [0, 1 << 63]), ("F4", [0]), ("F8_E8M0", [0])):
        about = {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}
        header = json.dumps({"__metadata__": {"key": "key"}, "first": about, "begins": about})
        path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
        assert stored_plan(path, "key") is None
