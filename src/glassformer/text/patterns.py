"""Which regular expressions a tokenizer may have: those that take linear time.

These are the known ones, verbatim; and alternatives of a few characters or character classes each,
of which only the last is repeated. `(a+)+b` is neither: it can take exponential time.
"""

from __future__ import annotations

import difflib
import re

_WORD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_START = r"[^\r\n\p{L}\p{N}]?"
_SIGNS = r" ?[^\s\p{L}\p{N}]+"
KNOWN = {
    "^ | $": "SentencePiece's",
    rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|\s+(?!\S)|\s+": "GPT-2's",
    rf"{_WORD}|{_START}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}[\r\n]*|{_END}": "Llama 3's",
    rf"{_WORD}|{_START}\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*|{_END}": "Qwen2's",
    rf"{_START}{_UPPER}*{_LOWER}+|{_START}{_UPPER}+{_LOWER}*|\p{{N}}|{_SIGNS}[\r\n/]*|{_END}": (
        "Mistral Nemo's"
    ),
    rf"{_START}{_UPPER}*{_LOWER}+{_WORD}?|{_START}{_UPPER}+{_LOWER}*{_WORD}?|\p{{N}}{{1,3}}"
    rf"|{_SIGNS}[\r\n/]*|{_END}": "GPT-4o's",
}
_ATOM = r"(?:\[\^?(?:\\.|[^\]\[\\])+\]|\\[pP]\{\w{1,9}\}|\\[sSdDwWnrt]|[^\\\[\](){}.*+?^$|])"
_REPEAT = r"(?:\+|\{[1-9]\d?(?:,\d{0,2})?\})?"
_SIMPLE = re.compile(rf"(?:{_ATOM}\??){{0,3}}{_ATOM}{_REPEAT}")
MAX_LENGTH = 400


def bounded(pattern: object) -> bool:
    """Is this a regular expression that takes linear time?"""
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_LENGTH:
        return False
    return pattern in KNOWN or all(map(_SIMPLE.fullmatch, pattern.split("|")))


def nearest(pattern: str) -> str:
    """The known pattern that is most similar to this one, by the name of its model."""
    return KNOWN[difflib.get_close_matches(pattern[:MAX_LENGTH], KNOWN, n=1, cutoff=0)[0]]
