"""How much longer a tokenizer can make a text, computed before the library does it.

A few parts in a row are enough to fill the memory: `Replace` writes ﷺ for a letter, NFKC makes 18
letters of it, the next `Replace` writes ﷺ for each of them … So one character may become 64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers.normalizers import NFKD

from glassformer.errors import CheckpointError
from glassformer.text.charsmap import longest_text

MAX_GROWTH = 64
MAX_CHAR_BYTES = 4  # bytes of a character
# What one character can become: characters, bytes. Parts that are not here only shorten a text.
FORMS = {
    "NFC": (3, 12), "NFD": (4, 12), "NFKC": (18, 33), "NFKD": (18, 33), "Lowercase": (2, 4),
    "BertNormalizer": (3, 12),
}  # fmt: skip
SPLIT_AT_SPACES = {
    "WhitespaceSplit",
    "CharDelimiterSplit",
    "Metaspace",
}  # they split at spaces only

Part = Mapping[str, Any]


def check_growth(normalizers: Sequence[Part], pieces: Sequence[Part], source: str) -> int:
    """Raise if one character can become too many; return how many the normalizer makes of it."""
    chars, size = _normalized(normalizers)
    growth = max(chars, _in_pieces(pieces, chars, size))
    if growth > MAX_GROWTH:
        kinds = ", ".join(dict.fromkeys(part["type"] for part in (*normalizers, *pieces)))
        raise CheckpointError(
            f"{source}: normalizer and pre_tokenizer can make {growth:,} characters of one, more "
            f"than {MAX_GROWTH}: write fewer of {kinds}"
        )
    return chars


def _normalized(parts: Sequence[Part]) -> tuple[int, int]:
    """The characters and bytes that one character becomes.

    Forms in a row grow no more than the largest of them, because what NFD or NFKC has taken apart
    is not taken apart again. A map after NFKD sees only what NFKD leaves. Any other part can write
    characters that the next form takes apart.
    """
    chars, size, start = 1, MAX_CHAR_BYTES, 1  # start: characters before this row of forms
    apart = False  # whether NFKD is in this row
    for part in parts:
        match part["type"]:
            case "StripAccents":
                continue
            case kind if kind in FORMS:
                most, largest = FORMS[kind]
                chars, size = max(chars, start * most), max(size, start * largest)
                apart = kind == "NFKD" or (apart and kind == "Lowercase")
                continue
            case "Replace":  # by no more characters than it finds
                size = MAX_CHAR_BYTES * chars
            case "Precompiled":
                occurs = _whole if apart else None
                most, largest = longest_text(part["precompiled_charsmap"], occurs)
                chars, size = chars * max(most, 1), chars * max(largest, MAX_CHAR_BYTES)
            case "Prepend":
                chars += len(part["prepend"])
                size = MAX_CHAR_BYTES * chars
            case "ByteLevel":  # a character of one or two bytes for each byte
                chars, size = size, 2 * size
        start, apart = chars, False
    return chars, size


def _whole(text: str) -> bool:
    """Does NFKD leave it as it is?"""
    return bool(NFKD().normalize_str(text) == text)


def _in_pieces(parts: Sequence[Part], chars: int, size: int) -> int:
    """The characters after the pre-tokenizer, which may write a space before each piece."""
    split = False  # perhaps after each character
    for part in parts:
        pieces = chars if split else 1
        if part["type"] == "Metaspace" and part.get("prepend_scheme") != "never":
            chars, size = chars + pieces, size + MAX_CHAR_BYTES * pieces
        if part["type"] == "ByteLevel":
            chars = size + (pieces if part["add_prefix_space"] else 0)
            size = 2 * chars
        split = split or part["type"] not in SPLIT_AT_SPACES
    return chars
