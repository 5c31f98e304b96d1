"""Untrusted JSON: no NaN, no duplicate keys, of limited size and depth."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from glassformer.errors import CheckpointError, shown
from glassformer.strict import plainly

T = TypeVar("T")
MAX_VALUES, MAX_OBJECTS, MAX_DEPTH, MAX_DIGITS = 200_000, 30_000, 64, 40
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse(
    text: str | bytes, source: str, kind: type = dict, *, values: int = MAX_VALUES,
    objects: int = MAX_OBJECTS,
) -> Any:  # fmt: skip
    """The object (or list, by `kind`) in `text`; a CheckpointError says what is wrong with it.

    `values` limits the number of numbers, strings, lists and objects in it, `objects` that of the
    objects alone.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    _check_size(data, source, values, objects)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise CheckpointError(
                f"{source}: field {shown(duplicate)} is there twice: write it once"
            )
        return fields

    def short(word: str) -> str:
        if len(word) > MAX_DIGITS:
            raise CheckpointError(
                f"{source}: {_field(data, word)} is a number of {len(word):,} digits: "
                f"write at most {MAX_DIGITS}"
            )
        return word

    def finite(word: str) -> float:
        number = float(short(word))
        if not math.isfinite(number):
            raise CheckpointError(
                f"{source}: {_field(data, word)} is {word}, not JSON: write a finite number"
            )
        return number

    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=unique,
            parse_constant=finite,
            parse_float=finite,
            parse_int=lambda word: int(short(word)),
        )
        if _SURROGATE.search(data):  # Python also accepts one without its pair
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{source}: not UTF-8 text: {error}") from None
    except UnicodeEncodeError as error:
        near = shown(error.object[max(0, error.start - 60) : error.end])
        raise CheckpointError(f"{source}: half a character at the end of {near}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{source}: not valid JSON: {error}") from None
    if not isinstance(value, kind):
        expected = "an object, {…}" if kind is dict else "a list, […]"
        raise CheckpointError(f"{source}: write {expected}, not {type(value).__name__}")
    return value


def parse_as(
    kind: type[T], data: bytes, source: str, *, values: int = MAX_VALUES, objects: int = MAX_OBJECTS
) -> T:
    """A file of our own as the dataclass that wrote it: exactly its fields, each of its type."""
    fields = parse(data, source, values=values, objects=objects)
    try:
        return TypeAdapter(kind).validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{source}: {name}: {plainly(first['msg'])}") from None


def _check_size(data: bytes, source: str, values: int, most_objects: int) -> None:
    """Bound the size of the result before the parser allocates it."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise CheckpointError(f"{source}: it starts with a byte order mark: save it without one")
    objects = data.count(b"{")
    count = objects + data.count(b"[") + data.count(b",")
    if objects > most_objects or count > values:
        raise CheckpointError(
            f"{source}: about {count:,} values, {objects:,} of them objects: more than such a file "
            "may have"
        )
    # Keep quotes and brackets only, drop the strings, then remove the innermost brackets 64 times.
    bare = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(_SQUARE, _NO_STRUCTURE)
    bare = re.sub(rb'"[^"]*"', b"", bare.replace(b'""', b""))
    for _ in range(MAX_DEPTH):
        peeled = bare.replace(b"[]", b"")
        if len(peeled) == len(bare):
            break
        bare = peeled
    if b"[]" in bare or bare.count(b"[") > MAX_DEPTH:
        raise CheckpointError(f"{source}: nested deeper than {MAX_DEPTH} levels: make it flatter")


def _field(data: bytes, word: str) -> str:
    """The name of the field whose value is `word`, for a message."""
    match = re.search(rb'"([^"\\]{1,80})"\s*:[\s\[]*' + re.escape(word[:80].encode()), data)
    return f"field {shown(match[1].decode('utf-8', 'replace'))}" if match else "a value"
