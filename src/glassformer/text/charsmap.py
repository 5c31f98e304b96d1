"""SentencePiece's character map, checked before the library follows its offsets."""

from __future__ import annotations

import array
import base64
import binascii
import sys

MAX_BYTES = 64  # that one character may become; in NFKC 33


def wrong_with_charsmap(text: str) -> str | None:
    """What is wrong with a base64 character map; None if nothing is.

    It is 4 bytes of length, a double-array trie of as many bytes, then texts that end with NUL. A
    unit of the trie with its highest bit set points to a text, any other to a block of 256 units.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "it is not base64"
    size, rest = int.from_bytes(data[:4], "little"), data[4:]
    if not 0 < size <= len(rest) or size % 4:
        return f"a trie of {size:,} bytes in a map of {len(rest):,}"
    units, texts = array.array("I", rest[:size]), rest[size:]
    if sys.byteorder == "big":
        units.byteswap()
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
            fits = (index ^ (unit >> 10) << ((unit & 512) >> 6)) | 255 < len(units)
        if not fits:
            return f"unit {index} of its trie points outside"
    return None


def longest_text(text: str) -> tuple[int, int]:
    """The most characters, and the most bytes, that a correct map writes for one character."""
    data = base64.b64decode(text)
    texts = data[4 + int.from_bytes(data[:4], "little") :].split(b"\0")
    return max(len(each.decode("utf-8")) for each in texts), max(map(len, texts))
