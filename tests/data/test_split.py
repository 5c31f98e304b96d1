"""Held out is held out: no text of it is trained on, on either side."""

import random

from hypothesis import given
from hypothesis import strategies as st

from commands import glassformer
from glassformer.data.split import is_held, split_pairs
from tiny import write_recipe

TEXTS = st.sampled_from([f"{word} {n}" for word in ("a", "B", "ß") for n in range(8)])


def both(pairs, share):
    told = []
    train = list(split_pairs(lambda: iter(pairs), share, held=False, report=told.append))
    held = list(split_pairs(lambda: iter(pairs), share, held=True))
    return train, held, told[0]


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=60), st.floats(0, 1))
def test_no_text_is_on_both_sides(pairs, share):
    train, held, left_out = both(pairs, share)
    for side in (0, 1):
        known = {pair[side].casefold() for pair in held}
        assert not [pair for pair in train if pair[side].casefold() in known]
    assert len(train) + len(held) + left_out == len(pairs)


def test_a_pair_is_left_out_only_because_of_its_target():
    """Source a0 is held out; whoever has its target, but another source, is in neither part."""
    held = next(f"a{i}" for i in range(100) if is_held(f"a{i}", 0.5))
    free = next(f"a{i}" for i in range(100) if not is_held(f"a{i}", 0.5))
    pairs = [(held, "x"), (held, "y"), (free, "y"), (free.upper(), " Y"), (free, "z")]
    train, found, left_out = both(pairs, 0.5)
    assert train == [(free, "z")] and found == [(held, "x"), (held, "y")] and left_out == 2


def test_case_and_spaces_make_no_other_text():
    pairs = [(f"Text {i}", f"t{i}") for i in range(200)]
    odd = [(f"TEXT  {i} ", f"u{i}") for i in range(200)]
    train, held, _ = both(pairs + odd, 0.3)
    assert len(held) % 2 == 0 and 60 < len(held) < 180
    assert {p[0].split()[1] for p in held}.isdisjoint(p[0].split()[1] for p in train)


def test_order_and_company_move_nothing():
    pairs = [(f"s{i}", f"t{i}") for i in range(100)]
    mixed = random.Random(0).sample(pairs, 100)
    assert sorted(both(pairs, 0.2)[1]) == sorted(both(mixed, 0.2)[1])
    assert set(both(pairs[:50], 0.2)[1]) <= set(both(pairs, 0.2)[1])


def test_a_run_says_how_many_were_left_out(tmp_path):
    recipe = write_recipe(tmp_path, "translation", data={"valid_fraction": 0.3})
    lines = [f"word {i}\tWORT {i % 40}\n" for i in range(200)]
    (tmp_path / "text.txt").write_text("".join(lines))
    said = glassformer("pretrain", recipe, "--out", tmp_path / "run", "--dry-run")
    pairs = [tuple(line.rstrip().split("\t")) for line in lines]
    _, _, left_out = both(pairs, 0.3)
    line = f"{left_out} pairs left out: a text of the validation data is in it"
    assert said.errors.count(line) == 1 and left_out > 20
