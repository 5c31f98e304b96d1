"""Rows from Python objects: dicts or tuples, columns, a DataFrame, a Hugging Face Dataset.

The objects of other libraries are known by their methods; none of these libraries is imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.errors import InputError, shown
from glassformer.text import plain

Row = dict[str, Any]
# The names of the columns of a tuple, by their number.
Columns = Mapping[int, tuple[str, ...]]


def records(value: Any, name: str, columns: Columns) -> list[Row]:
    """The rows of `value`, which the caller calls `name`, as dicts of plain Python values."""
    rows = [_row(row, f"{name}[{i}]", columns) for i, row in enumerate(_rows(value, name))]
    if not rows:
        raise InputError(f"{name} is empty: give at least one row")
    classes = _class_names(value)
    return [{key: _value(item, classes.get(key)) for key, item in row.items()} for row in rows]


def as_jsonl(rows: Iterable[Row]) -> str:
    """A line of JSON for each row."""
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def pick(row: Row, names: Sequence[str], where: str) -> Any:
    """The first of these columns that the row has."""
    name = next((name for name in names if name in row), None)
    if name is None:
        known = ", ".join(map(repr, row))
        raise InputError(f"{where}: no column {' or '.join(map(repr, names))}: it has {known}")
    return row[name]


def _rows(value: Any, name: str) -> Iterable[Any]:
    if hasattr(value, "to_dicts"):  # polars
        return list(value.to_dicts())
    if hasattr(value, "iloc") and hasattr(value, "to_dict"):  # pandas
        return list(value.to_dict("records"))
    if isinstance(value, Mapping):
        return _of_columns(value, name)
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InputError(f"{name} = {shown(value)}: give a file, or rows: a list, a table, columns")
    return value


def _of_columns(value: Mapping[str, Any], name: str) -> list[Row]:
    parts = [key for key, part in value.items() if hasattr(part, "column_names")]
    if parts:  # a DatasetDict
        raise InputError(f"{name}: this has parts: give one of {', '.join(map(repr, parts))}")
    lists = {key: plain(column) for key, column in value.items()}
    for key, column in lists.items():
        if isinstance(column, str) or not isinstance(column, Iterable):
            raise InputError(f"{name}[{key!r}] = {shown(column)}: give a list of values")
    columns = {key: list(column) for key, column in lists.items()}
    sizes = {key: len(column) for key, column in columns.items()}
    if len(set(sizes.values())) > 1:
        lengths = ", ".join(f"{key} {size}" for key, size in sizes.items())
        raise InputError(f"{name}: columns of different lengths ({lengths}): make them equal")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _row(row: Any, where: str, columns: Columns) -> Row:
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, tuple | list) and len(row) in columns:
        return dict(zip(columns[len(row)], row, strict=True))
    shapes = " or ".join(f"({', '.join(names)})" for names in columns.values())
    raise InputError(f"{where} is {shown(row)}: give a dict, or {shapes}")


def _class_names(value: Any) -> dict[str, Sequence[str]]:
    """The names of numbered classes, by column: a Hugging Face Dataset has them beside its rows."""
    features = getattr(value, "features", None)
    known = {}
    for key, feature in features.items() if isinstance(features, Mapping) else ():
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if isinstance(names, Sequence):
            known[key] = names
    return known


def _value(value: Any, names: Sequence[str] | None) -> Any:
    value = plain(value)
    if isinstance(value, list | tuple):
        return [_value(item, names) for item in value]
    if isinstance(value, Mapping):
        return {key: _value(item, names) for key, item in value.items()}
    if isinstance(value, float) and math.isnan(value):
        return None  # a gap in a DataFrame
    if names is not None and type(value) is int and 0 <= value < len(names):
        return names[value]
    return value
