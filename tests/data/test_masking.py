"""15 % of the tokens, of them 80 % masked, 10 % swapped, 10 % left: whatever stands beside them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.masking import LONGEST, Masking

VOCAB, SPECIAL, MASK = 101, 5, 4
UNITS = ("token", "word", "span")
FORBIDDEN = np.arange(VOCAB) < SPECIAL
BEGINS = np.arange(VOCAB) % 3 != 0  # a third of the pieces go on with a word


def masking(unit="token", rate=0.15):
    return Masking(rate, unit, MASK, VOCAB, FORBIDDEN, BEGINS)


def texts_of(sizes, seed=0):
    """[CLS] words [SEP] for each: the row, which text, and a place in the data."""
    draw = np.random.default_rng(seed)
    parts = [[2, *draw.integers(SPECIAL, VOCAB, size), 3] for size in sizes]
    text = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return np.concatenate(parts).astype(np.int64), text, 1000 * text + np.arange(len(text))


def within(count, total, share, sigmas=5):
    return abs(count - share * total) < sigmas * (total * share * (1 - share)) ** 0.5 + 1


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_rate_is_kept_in_every_text(unit, rate):
    row, text, key = texts_of([127] * 200)
    _, chosen = masking(unit, rate)(row, text, key, 0, 0)
    each = np.bincount(text[chosen], minlength=200)
    wanted = round(rate * 127)
    assert each.max() <= wanted
    assert each.mean() > wanted - LONGEST / 2
    if unit == "token":
        assert (each == wanted).all()


@pytest.mark.parametrize("unit", UNITS)
def test_eighty_ten_ten(unit):
    row, text, key = texts_of([200] * 300)
    hidden, chosen = masking(unit)(row, text, key, 7, 0)
    after, before = hidden[chosen], row[chosen]
    total = len(chosen)
    assert within((after == MASK).sum(), total, 0.8)
    assert within((after == before).sum(), total, 0.1 + 0.1 / (VOCAB - SPECIAL))
    swapped = (after != MASK) & (after != before)
    assert within(swapped.sum(), total, 0.1)
    assert not FORBIDDEN[after[swapped]].any()
    assert len(np.unique(after[swapped])) > 0.9 * (VOCAB - SPECIAL)
    rest = np.ones(len(row), dtype=bool)
    rest[chosen] = False
    assert (hidden[rest] == row[rest]).all()


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=10), st.sampled_from(UNITS),
    st.floats(0.01, 0.9), st.integers(0, 5), st.integers(0, 5),
)  # fmt: skip
def test_never_special_tokens_and_at_least_one(sizes, unit, rate, seed, epoch):
    row, text, key = texts_of(sizes)
    one = masking(unit, rate)
    _, chosen = one(row, text, key, seed, epoch)
    assert not FORBIDDEN[row[chosen]].any()
    assert (np.diff(chosen) > 0).all()
    each = np.bincount(text[chosen], minlength=len(sizes))
    assert ((each > 0) == (np.array(sizes) > 0)).all()
    assert len(chosen) <= one.most(len(row), len(sizes))


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=8), st.sampled_from(UNITS),
    st.integers(0, 3), st.randoms(use_true_random=False),
)  # fmt: skip
def test_the_same_text_in_another_row_gets_the_same_mask(sizes, unit, epoch, shuffle):
    """What resuming, other rows and other numbers of workers rest on."""
    row, text, key = texts_of(sizes)
    order = list(range(len(sizes)))
    shuffle.shuffle(order)
    places = [np.flatnonzero(text == i) for i in order[: len(sizes) // 2 + 1]]
    moved = np.concatenate(places)
    other_text = np.repeat(np.arange(len(places)), [len(place) for place in places])
    one = masking(unit)
    hidden, chosen = one(row, text, key, 3, epoch)
    again, also = one(row[moved], other_text, key[moved], 3, epoch)
    assert again.tolist() == hidden[moved].tolist()
    assert sorted(moved[also].tolist()) == sorted(set(chosen.tolist()) & set(moved.tolist()))


def test_other_epochs_and_seeds_hide_others():
    row, text, key = texts_of([200])
    found = {tuple(masking()(row, text, key, *keys)[1]) for keys in ((0, 0), (0, 1), (1, 0))}
    assert len(found) == 3


def test_every_token_is_hidden_in_some_epoch():
    row, text, key = texts_of([40])
    seen = np.zeros(len(row), dtype=int)
    for epoch in range(300):
        seen[masking()(row, text, key, 0, epoch)[1]] += 1
    assert (seen > 0).tolist() == (~FORBIDDEN[row]).tolist()
    assert within(seen[1:-1].max(), 300, 0.15) and within(seen[1:-1].min(), 300, 0.15)


def test_whole_words_are_hidden_whole():
    row, text, key = texts_of([60] * 50)
    _, chosen = masking("word", 0.3)(row, text, key, 0, 0)
    picked = np.zeros(len(row), dtype=bool)
    picked[chosen] = True
    inside = ~BEGINS[row] & ~FORBIDDEN[row] & ~FORBIDDEN[np.roll(row, 1)]
    where = np.flatnonzero(inside)
    runs = np.diff(np.flatnonzero(~inside)) - 1
    assert runs.max() < LONGEST - 1  # no word here is long enough to be cut
    assert (picked[where] == picked[where - 1]).all()


def test_a_very_long_word_is_hidden_in_parts():
    """Else one word could be a whole row's worth of answers."""
    row = np.array([2, *[6] * 95, 3])  # 6 goes on with a word
    _, chosen = masking("word")(row, np.zeros(97, dtype=int), np.arange(97), 0, 0)
    assert 1 <= len(chosen) <= LONGEST + round(0.15 * 95)
    starts = chosen[np.diff(chosen, prepend=-2) > 1]
    assert ((starts - 1) % LONGEST == 0).all()


def test_spans_are_spans():
    row, text, key = texts_of([400] * 30)
    _, chosen = masking("span")(row, text, key, 0, 0)
    runs = np.diff(np.flatnonzero(np.diff(chosen, prepend=-9, append=1 << 40) > 1))
    assert 2.5 < runs.mean() < 5.5  # 3.8, cut at 10, and neighbours that touch
    single, _ = np.unique(np.diff(masking()(row, text, key, 0, 0)[1]), return_counts=True)
    assert len(single) > 1


def test_hidden_words_are_spread_evenly_over_the_text():
    row, text, key = texts_of([100] * 400)
    _, chosen = masking()(row, text, key, 0, 0)
    counts = np.bincount(chosen - 102 * text[chosen], minlength=102)[1:-1]
    assert within(counts.max(), 400, 0.15) and within(counts.min(), 400, 0.15)
