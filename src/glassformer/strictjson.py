"""JSON of somebody else: no NaN, no infinity, no key twice, and the kind that is expected."""

from __future__ import annotations

import json
import math
from typing import Any

from glassformer.errors import CheckpointError


def parse(text: str | bytes, source: str, kind: type = dict) -> Any:
    """The object (or list) that `text` holds, or one line that says what is wrong with it."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise CheckpointError(f"{source}: field {twice!r} is there twice: write it once")
        return found

    def finite(word: str) -> float:
        number = float(word)
        if not math.isfinite(number):
            raise CheckpointError(f"{source}: {word} is no number in JSON: write a finite one")
        return number

    try:
        found = json.loads(text, object_pairs_hook=once, parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source}: this is no JSON: {error}") from None
    if not isinstance(found, kind):
        wanted = "an object, {…}" if kind is dict else "a list, […]"
        raise CheckpointError(f"{source}: write {wanted}, not {type(found).__name__}")
    return found
