"""Windows: they cover a text, overlap as asked, and fit the model."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.inference.windows import WindowedText, windows
from glassformer.text.tokenizer import Encoding


def encoding(before: int, inside: int, after: int, side: int = 0) -> Encoding:
    texts = [None] * before + [side] * inside + [None] * after
    count = len(texts)
    return Encoding(list(range(count)), [0] * count, [], [], [], texts)


@given(
    st.integers(0, 3), st.integers(0, 200), st.integers(0, 2), st.integers(6, 40), st.integers(0, 6)
)
def test_windows_cover_a_text_and_fit(
    before: int, inside: int, after: int, most: int, overlap: int
) -> None:
    room = most - before - after
    if overlap >= room:
        return
    whole = encoding(before, inside, after)
    found = windows(whole, most, overlap=overlap)
    reading = WindowedText(whole, found)
    assert all(len(each.places) <= most for each in found)
    assert {place for each in found for place in each.places} == set(range(len(whole.ids)))
    assert (len(found) == 1) == (len(whole.ids) <= most)
    assert len({len(each.places) for each in found}) == 1
    for one, two in pairwise(found):
        assert one.start < two.start and one.end - two.start >= overlap
    for place in range(before, before + inside):
        home = found[reading.best_window(place)]
        assert home.places[home.index(place)] == place


def test_what_stands_around_is_in_every_window() -> None:
    texts = [None, 0, 0, None, *[1] * 20, None]
    whole = Encoding(list(range(25)), [], [], [], [], texts)
    found = windows(whole, 11)
    assert all(each.places[:4] == [0, 1, 2, 3] for each in found)
    assert all(each.places[-1] == 24 for each in found)
    assert found[0].places[4:-1] == list(range(4, 10)) and found[-1].end == 24


def test_a_token_is_seen_where_most_stands_around_it() -> None:
    whole = encoding(0, 10, 0)
    reading = WindowedText(whole, windows(whole, 6, overlap=2))
    assert [(each.start, each.end) for each in reading.windows] == [(0, 6), (4, 10)]
    assert [reading.best_window(place) for place in range(10)] == [0] * 5 + [1] * 5


@pytest.mark.parametrize("overlap", [-1, 6, 1.5])
def test_a_wrong_overlap_gets_one_line(overlap: int) -> None:
    with pytest.raises(InputError, match=r"overlap = .*from 0 to 5"):
        windows(encoding(0, 20, 0), 6, overlap=overlap)


def test_too_long_a_question_gets_one_line() -> None:
    with pytest.raises(InputError, match="12 tokens and the model reads at most 10"):
        windows(encoding(12, 5, 0), 10)
