"""SentencePiece's map of characters, checked before the library walks it: no step leaves it."""

from __future__ import annotations

import array
import base64
import binascii
import sys

LONGEST = 64  # bytes that one character may become; in NFKC 33


def wrong_with_charsmap(text: str) -> str | None:
    """4 bytes of length, then a double-array trie of as many bytes, then texts, each with a NUL.

    A unit of the trie with its highest bit set points at a text; any other to a block of 256 units.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "it is no base64"
    size, rest = int.from_bytes(data[:4], "little"), data[4:]
    if not 0 < size <= len(rest) or size % 4:
        return f"a trie of {size:,} bytes in {len(rest):,}"
    units, texts = array.array("I", rest[:size]), rest[size:]
    if sys.byteorder == "big":
        units.byteswap()
    try:
        texts.decode("utf-8")
    except UnicodeDecodeError:
        return "its texts are not UTF-8"
    if not texts.endswith(b"\0") or max(map(len, texts.split(b"\0"))) > LONGEST:
        return f"one of its texts is longer than {LONGEST} bytes"
    for place, unit in enumerate(units):
        if unit >> 31:
            at = unit & 0x7FFFFFFF
            fits = at < len(texts) and texts[at] & 0xC0 != 0x80
        else:
            fits = (place ^ (unit >> 10) << ((unit & 512) >> 6)) | 255 < len(units)
        if not fits:
            return f"unit {place} of its trie points out of it"
    return None
