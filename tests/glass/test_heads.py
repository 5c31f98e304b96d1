"""A head of each kind, built by hand, scores one; what it is not, zero."""

import pytest
import torch

import glassformer as gf
from folders import tiny
from glassformer import glass

WORDS = ["a", "b", "c", "a", "b", "."]
T = len(WORDS)


def trace_of(rows, tokens=WORDS, stack="decoder", source=()):
    """One layer whose heads look as `rows` say: for each query the keys it divides itself among."""
    weights = torch.zeros(len(rows), len(tokens), len(source or tokens), dtype=torch.float64)
    for head, row in enumerate(rows):
        for query, keys in enumerate(row):
            weights[head, query, keys] = 1 / len(keys)
    place = "decoder.blocks.0.cross" if stack == "cross" else f"{stack}.blocks.0.attention"
    return gf.Trace({f"{place}.weights": weights}, list(tokens), list(source))


def looking(where) -> list[list[int]]:
    return [where(i) for i in range(T)]


KINDS = {  # how a perfect head of the kind looks, in a decoder and in an encoder
    "previous": looking(lambda i: [max(0, i - 1)]),
    "first": looking(lambda i: [0]),
    "duplicate": [[0], [1], [2], [0], [1], [5]],
    "induction": [[0], [0], [0], [1], [2], [0]],
    "next": looking(lambda i: [min(T - 1, i + 1)]),
    "separator": looking(lambda i: [5]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_perfect_head_scores_one(kind: str) -> None:
    trace = trace_of([KINDS[kind]], stack="encoder" if kind == "separator" else "decoder")
    stack = next(iter(glass.stacks(trace)))
    scores = glass.head_scores(trace, stack)
    assert list(scores) == ["previous", "next", "first", "duplicate", "induction", "separator"]
    assert scores[kind].item() == 1
    assert glass.head_types(trace, stack) == [[kind]]


def test_in_an_encoder_a_duplicate_may_stand_behind() -> None:
    both = [[3], [4], [2], [0], [1], [5]]
    assert glass.head_scores(trace_of([both], stack="encoder"), "encoder")["duplicate"] == 1


def test_induction_by_hand() -> None:
    """a b c a b: of the two queries that have been before, one looks where it should, by half."""
    rows = [[0], [0], [0], [1, 2], [0], [0]]
    assert glass.head_scores(trace_of([rows]), "decoder")["induction"].item() == 0.25


def test_induction_on_repeated_random_tokens_as_published() -> None:
    """25 random tokens, four times: the mean weight on what came after the token in all earlier
    repeats. A head that divides itself among them, or takes the last of them, scores one."""
    ids = glass.repeated(1000, start=7)
    assert len(ids) == 101 and ids[0] == 7
    assert ids[1:26] == ids[26:51] == ids[76:] and len(set(ids[1:26])) == 25
    assert ids == glass.repeated(1000, start=7) != glass.repeated(1000, start=7, seed=1)
    tokens = [str(i) for i in ids]
    earlier = [[j + 1 for j in range(1, i) if ids[j] == ids[i]] or [0] for i in range(101)]
    last = [[each[-1]] for each in earlier]
    before = [[max(0, each[-1] - 1)] for each in earlier]  # the token itself: no induction
    wide = [list(range(i + 1)) for i in range(101)]
    scores = glass.head_scores(trace_of([earlier, last, before, wide], tokens), "decoder")
    found = scores["induction"][0]
    torch.testing.assert_close(found[:3], torch.tensor([1.0, 1.0, 0.0]).double())
    rows = range(26, 101)
    uniform = sum(len(earlier[i]) / (i + 1) for i in rows) / len(rows)
    torch.testing.assert_close(found[3].item(), uniform)


def test_a_text_without_repeats_has_no_duplicates() -> None:
    trace = trace_of([[[0], [1], [0, 1]]], tokens=["x", "y", "z"])
    scores = glass.head_scores(trace, "decoder")
    assert scores["duplicate"] == scores["induction"] == scores["separator"] == 0


def test_one_token_alone() -> None:
    scores = glass.head_scores(trace_of([[[0]]], tokens=["x"]), "decoder")
    assert all(each.item() == 0 for each in scores.values())


def test_below_the_threshold_a_head_has_no_name() -> None:
    trace = trace_of([looking(lambda i: [0] if i == 0 else [i - 1, i]), looking(lambda i: [0])])
    assert glass.head_scores(trace, "decoder")["previous"][0, 0] == 0.5
    assert glass.head_types(trace, "decoder") == [["previous", "first"]]
    assert glass.head_types(trace, "decoder", threshold=0.7) == [["", "first"]]


def test_across_two_texts() -> None:
    trace = trace_of([[[0], [0]], [[2], [2]]], ["x", "y"], "cross", ["a", "b", "</s>"])
    assert list(glass.head_scores(trace, "cross")) == ["first", "separator"]
    assert glass.head_types(trace, "cross") == [["first", "separator"]]


@pytest.mark.parametrize("family", ["encoder", "decoder", "seq2seq"])
def test_every_family_has_scores_between_zero_and_one(family: str) -> None:
    text = [3, 9, 4, 9, 3]
    trace = gf.record(tiny(family), (text[:3], text) if family == "seq2seq" else text)
    for stack, shape in glass.stacks(trace).items():
        for score in glass.head_scores(trace, stack).values():
            assert score.shape == (shape.layers, shape.heads)
            assert score.min() >= 0 and score.max() <= 1
