"""SentencePiece's character map, checked before the library follows its offsets."""

from __future__ import annotations

import array
import base64
import binascii
import sys
from collections.abc import Callable, Iterator, Sequence

MAX_BYTES = 64  # that one character may become; in NFKC 33
MAX_KEY = 5  # the library looks up characters, and letters with their marks if they are as short
MAX_NODES = 1 << 18  # to look at; NFKC's map has 27,000


def wrong_with_charsmap(text: str) -> str | None:
    """What is wrong with a base64 character map; None if nothing is.

    It is 4 bytes of length, a double-array trie of as many bytes, then texts that end with NUL. A
    unit of the trie with its highest bit set points to a text, any other to a block of 256 units.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "it is not base64"
    size = int.from_bytes(data[:4], "little")
    if not 0 < size <= len(data) - 4 or size % 4:
        return f"a trie of {size:,} bytes in a map of {max(len(data) - 4, 0):,}"
    units, texts = _units_and_texts(data)
    try:
        texts.decode("utf-8")
    except UnicodeDecodeError:
        return "its texts are not UTF-8"
    if not texts.endswith(b"\0") or max(map(len, texts.split(b"\0"))) > MAX_BYTES:
        return f"one of its texts is longer than {MAX_BYTES} bytes"
    for index, unit in enumerate(units):
        if unit >> 31:
            at = unit & 0x7FFFFFFF
            fits = at < len(texts) and texts[at] & 0xC0 != 0x80
        else:
            fits = _block(index, unit) | 255 < len(units)
        if not fits:
            return f"unit {index} of its trie points outside"
    return None


def longest_text(text: str, occurs: Callable[[str], bool] | None = None) -> tuple[int, int]:
    """The most characters, and the most bytes, that a correct map writes for one character.

    `occurs` says which characters the map gets to see; by default all of them.
    """
    units, texts = _units_and_texts(base64.b64decode(text))
    every = texts.split(b"\0")
    longest = max(len(each.decode("utf-8")) for each in every), max(map(len, every))
    if occurs is None:
        return longest
    chars = size = 0
    for steps, (key, at) in enumerate(_nodes(units)):
        if steps == MAX_NODES or (at or 0) >= len(texts):
            return longest
        written = b"" if at is None else texts[at : texts.index(b"\0", at)]
        more = len(written.decode("utf-8")), len(written)
        if (more[0] > chars or more[1] > size) and _may_occur(key, occurs):
            chars, size = max(chars, more[0]), max(size, more[1])
    return chars, size


def _units_and_texts(data: bytes) -> tuple[array.array[int], bytes]:
    size = int.from_bytes(data[:4], "little")
    units = array.array("I", data[4 : 4 + size])
    if sys.byteorder == "big":
        units.byteswap()
    return units, data[4 + size :]


def _nodes(units: Sequence[int]) -> Iterator[tuple[bytes, int | None]]:
    """Every node of the trie: its bytes, and where its text begins if it has one.

    From a node whose block begins at b, the byte c leads to unit b ^ c, if c is marked there.
    """
    children: dict[int, list[int]] = {}
    for index, unit in enumerate(units):
        if not unit >> 31:
            children.setdefault(index ^ (unit & 255), []).append(index)
    stack = [(b"", _block(0, units[0]))]
    while stack:
        key, block = stack.pop()
        for index in children.get(block, ()):
            unit = units[index]
            longer, below = key + bytes((unit & 255,)), _block(index, unit)
            yield longer, units[below] & 0x7FFFFFFF if unit & 256 else None
            if len(longer) < MAX_KEY:
                stack.append((longer, below))


def _block(index: int, unit: int) -> int:
    return index ^ (unit >> 10) << ((unit & 512) >> 6)


def _may_occur(key: bytes, occurs: Callable[[str], bool]) -> bool:
    try:
        return occurs(key.decode("utf-8"))
    except UnicodeDecodeError:  # the first bytes of a character
        return True
