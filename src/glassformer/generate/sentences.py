"""Split a text that is too long for the model into parts that fit. Nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable

from glassformer.data.prepare import sentences
from glassformer.errors import InputError, shown

Fits = Callable[[str], bool]

CLAUSES = re.compile(r".+?(?:[,;:—–]\s+|$)", re.DOTALL)
WORDS = re.compile(r"\S+\s*")
LETTERS = re.compile(r".", re.DOTALL)


def split(text: str, fits: Fits) -> tuple[list[str], int]:
    """The text itself, if it fits, else its sentences; and how many had to be broken up."""
    if fits(text):
        return [text], 0
    parts: list[str] = []
    broken = 0
    for sentence in sentences(text):
        if fits(sentence):
            parts.append(sentence)
        else:
            parts += break_up(sentence, fits)
            broken += 1
    return parts, broken


def break_up(sentence: str, fits: Fits) -> list[str]:
    """Split after commas and the like, else between words, else anywhere, as late as fits."""
    splits = (pattern.findall(sentence) for pattern in (CLAUSES, WORDS, LETTERS))
    pieces = next((split for split in splits if len(split) > 1), None)
    if pieces is None:
        raise InputError(f"{shown(sentence)} alone has more tokens than the model reads")
    parts: list[str] = []
    held = ""
    for piece in pieces:
        if held and not fits((held + piece).strip()):
            parts.append(held.strip())
            held = ""
        held += piece
    parts.append(held.strip())
    return [short for part in parts for short in ([part] if fits(part) else break_up(part, fits))]
