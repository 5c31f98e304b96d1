"""Strict JSON gives what Python's json gives, or one line; and never a surprise."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import strictjson
from glassformer.errors import CheckpointError, InputError, shown
from glassformer.strictjson import parse

PROFILE = settings(deadline=None, max_examples=50, derandomize=True)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=5) | st.sampled_from(
    ['"', "\\", '\\"', "[", "]}", '{"', "\\\\", "[[[[", "é", "😀", "\\ud800", "\x1b[31m"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def depth(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inside), default=0)


@PROFILE
@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.booleans(), st.sampled_from([None, 1]))
def test_what_json_writes_is_read(value: dict, ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert parse(text, "x") == parse(text.encode(), "x") == value


@PROFILE
@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.booleans())
def test_depth_is_counted_outside_of_texts(value: dict, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    before = strictjson.MAX_DEPTH
    strictjson.MAX_DEPTH = 3
    try:
        assert parse(text, "x") == value
        assert depth(value) <= 3
    except CheckpointError as error:
        assert "deeper than 3" in str(error)
        assert depth(value) > 3
    finally:
        strictjson.MAX_DEPTH = before


@PROFILE
@given(st.text(max_size=30) | st.binary(max_size=30))
def test_whatever_else_there_is_gets_one_line(text: str | bytes) -> None:
    try:
        parse(text, "x")
    except CheckpointError as error:
        assert str(error).startswith("x: ") and str(error).isprintable()


def test_limits_are_what_they_say() -> None:
    for count in (strictjson.MAX_VALUES - 2, strictjson.MAX_VALUES - 1):
        text = '{"a": [' + ",".join(["1"] * count) + "]}"
        if count == strictjson.MAX_VALUES - 1:
            assert len(parse(text, "x")["a"]) == count
            with pytest.raises(CheckpointError, match="values"):
                parse(text.replace("1,", "1,1,", 1), "x")
    deepest = '{"a": ' + "[" * 63 + "]" * 63 + "}"
    assert depth(parse(deepest, "x")) == 64
    assert parse('{"a": ' + "9" * 40 + "}", "x")["a"] == 10**40 - 1


@pytest.mark.parametrize(
    "value", ["\x1b[2J", "a\nb", "\u202e", "x" * 10**6, b"\x00", ["\x9b"] * 99]
)
def test_what_is_shown_is_short_and_printable(value: object) -> None:
    assert len(shown(value)) < 200 and shown(value).isprintable()
    line = str(InputError(f"a {value}: b"))
    assert line.startswith("a ") and line.endswith(": b")
    assert len(line) <= 1_000 and line.isprintable()
