"""A text that is too long for the model, in parts that are not. Nothing is cut off."""

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
    """The text itself, if it fits, else its sentences; and how many of those were broken up."""
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
    """Behind commas and their like, else between words, else anywhere: as much as fits in each."""
    found = (each.findall(sentence) for each in (CLAUSES, WORDS, LETTERS))
    pieces = next((each for each in found if len(each) > 1), None)
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
    return [each for part in parts for each in ([part] if fits(part) else break_up(part, fits))]
