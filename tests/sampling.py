"""`make test` runs some of a test's parameters, `make test-all` all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], keep: int = 1) -> list[Any]:
    """The parameters, all but the first `keep` of them marked as slow."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*row, marks=() if number < keep else pytest.mark.slow)
        for number, row in enumerate(rows)
    ]


def every_nth(values: Iterable[Any], n: int) -> list[Any]:
    """The parameters, all but each `n`th of them marked as slow."""
    return [
        pytest.param(value, marks=() if number % n == 0 else pytest.mark.slow)
        for number, value in enumerate(values)
    ]
