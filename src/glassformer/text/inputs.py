"""What callers give as texts: one or many, from a list, an array, a Series or a generator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glassformer.errors import InputError, shown

Text = str | tuple[str, str]
LISTS = ("tolist", "to_list", "to_pylist")  # of numpy, torch and pandas; polars; pyarrow


def plain(value: Any) -> Any:
    """Python's own str, int, list or tuple for those of other libraries."""
    if type(value) in (int, str):  # by far the most frequent
        return value
    if isinstance(value, str):
        return str(value)
    for name in LISTS:
        if callable(convert := getattr(value, name, None)):
            return convert()
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def items_of(value: Any, call: str, what: str = "a text, or a list of texts") -> list[Any]:
    """The items of anything that can be iterated over; InputError if it is no list of `what`."""
    columns = getattr(value, "column_names", getattr(value, "columns", None))
    if columns is not None:
        names = ", ".join(map(repr, columns))
        raise InputError(f"{call}: this is a table: give one of its columns: {names}")
    value = plain(value)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{call}: {shown(value)}: give {what}")
    return [plain(item) for item in value]


def is_one(value: Any) -> bool:
    """Whether the caller gave one text, and not many."""
    return isinstance(plain(value), str)


def texts_of(value: Any, call: str) -> list[str]:
    """One text or many, as a list of strings; InputError names the item that is none."""
    texts = [str(value)] if is_one(value) else items_of(value, call)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{call}: text {i} is {shown(text)}: write a string")
    return texts


def texts_or_pairs_of(value: Any, call: str) -> list[Text]:
    """The same, where a text may also be a pair: a tuple of two strings, alone or in a list."""
    alone = is_one(value) or isinstance(value, tuple)
    texts = [plain(value)] if alone else items_of(value, call)
    for i, text in enumerate(texts):
        pair = isinstance(text, tuple) and [type(part) for part in text] == [str, str]
        if not pair and not isinstance(text, str):
            raise InputError(
                f"{call}: text {i} is {shown(text)}: write a string, or a pair of strings"
            )
    return texts


def pairs_of(first: Any, second: Any, call: str) -> list[tuple[str, str]]:
    """Two texts, or two lists of the same length, as pairs."""
    one, other = texts_of(first, call), texts_of(second, call)
    if is_one(first) != is_one(second):
        raise InputError(f"{call}: give two texts, or two lists of texts")
    if len(one) != len(other):
        raise InputError(
            f"{call}: {len(one)} texts and {len(other)} texts: give two lists of the same length"
        )
    return list(zip(one, other, strict=True))
