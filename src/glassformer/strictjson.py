"""JSON of somebody else: no NaN, no key twice, no more and no deeper than a reader can hold."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

from glassformer.errors import CheckpointError, shown

MOST_VALUES, MOST_OBJECTS, MOST_DEPTH, MOST_DIGITS = 200_000, 30_000, 64, 40
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse(text: str | bytes, source: str, kind: type = dict, *, values: int = MOST_VALUES) -> Any:
    """The object (or list) that `text` holds, or one line that says what is wrong with it.

    `values` bounds how many numbers, strings, lists and objects there may be in it.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    _check_size(data, source, values)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise CheckpointError(f"{source}: field {shown(twice)} is there twice: write it once")
        return found

    def short(word: str) -> str:
        if len(word) > MOST_DIGITS:
            raise CheckpointError(
                f"{source}: {_field(data, word)} is a number of {len(word):,} digits: "
                f"write at most {MOST_DIGITS}"
            )
        return word

    def finite(word: str) -> float:
        number = float(short(word))
        if not math.isfinite(number):
            raise CheckpointError(
                f"{source}: {_field(data, word)} is {word}, no number in JSON: write a finite one"
            )
        return number

    try:
        found = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=once,
            parse_constant=finite,
            parse_float=finite,
            parse_int=lambda word: int(short(word)),
        )
        if _SURROGATE.search(data):  # a whole character is two of them; Python takes one alone too
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{source}: not UTF-8 text: {error}") from None
    except UnicodeEncodeError as error:
        near = shown(error.object[max(0, error.start - 60) : error.end])
        raise CheckpointError(f"{source}: half a character at the end of {near}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source}: this is no JSON: {error}") from None
    if not isinstance(found, kind):
        wanted = "an object, {…}" if kind is dict else "a list, […]"
        raise CheckpointError(f"{source}: write {wanted}, not {type(found).__name__}")
    return found


def _check_size(data: bytes, source: str, values: int) -> None:
    """Before anything is built: what the parser would make of this must be small."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise CheckpointError(f"{source}: it begins with a byte order mark: save it without one")
    objects = data.count(b"{")
    count = objects + data.count(b"[") + data.count(b",")
    if objects > MOST_OBJECTS or count > values:
        raise CheckpointError(
            f"{source}: about {count:,} values, {objects:,} of them objects: more than such a file "
            "may hold"
        )
    # Only quotes and brackets are left, then no strings, then 64 times no innermost brackets.
    bare = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_SQUARE, _NO_STRUCTURE)
    bare = re.sub(rb'"[^"]*"', b"", bare.replace(b'""', b""))
    for _ in range(MOST_DEPTH):
        peeled = bare.replace(b"[]", b"")
        if len(peeled) == len(bare):
            break
        bare = peeled
    if b"[]" in bare or bare.count(b"[") > MOST_DEPTH:
        raise CheckpointError(f"{source}: nested deeper than {MOST_DEPTH} levels: make it flatter")


def _field(data: bytes, word: str) -> str:
    """Whose value `word` is."""
    found = re.search(rb'"([^"\\]{1,80})"\s*:[\s\[]*' + re.escape(word[:80].encode()), data)
    return f"field {shown(found[1].decode('utf-8', 'replace'))}" if found else "a value"
