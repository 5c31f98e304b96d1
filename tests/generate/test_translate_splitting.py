"""Long texts: parts that fit, from which no word is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import InputError
from glassformer.generate.sentences import split


def at_most(most):
    return lambda text: len(text) <= most


def test_a_text_that_fits_is_not_touched():
    text = "One. Two!  Three, and four?"
    assert split(text, at_most(len(text))) == ([text], 0)


def test_sentences_first_then_clauses_then_words_then_letters():
    assert split("One two. Three four!", at_most(12)) == (["One two.", "Three four!"], 0)
    found = split("Short. One, two, three; four five", at_most(11))
    assert found == (["Short.", "One, two,", "three;", "four five"], 1)
    assert split("one two three", at_most(7)) == (["one two", "three"], 1)
    assert split("abcdefg", at_most(3)) == (["abc", "def", "g"], 1)


def test_a_comma_in_a_number_is_no_place_to_cut():
    assert split("1,000,000 of them", at_most(9))[0] == ["1,000,000", "of them"]


def test_a_letter_that_does_not_fit_is_said():
    with pytest.raises(InputError, match="'a' alone has more tokens than the model reads"):
        split("a", at_most(0))


@given(st.text("ab ,.;!?\n", max_size=80), st.integers(1, 20))
def test_nothing_is_lost_and_everything_fits(text, most):
    text = text.strip()
    parts, broken = split(text, at_most(most))
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(part) <= most for part in parts)
    assert broken <= len(parts)
