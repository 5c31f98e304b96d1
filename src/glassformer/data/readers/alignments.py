"""Gold word alignments by human annotators: which word translates which."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from glassformer.data.readers.files import read_lines
from glassformer.errors import InputError

Link = tuple[int, int]  # a word of the source and one of the target, both counted from 0

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class Gold:
    source: list[str]
    target: list[str]
    sure: frozenset[Link]
    possible: frozenset[Link]  # includes the sure ones


def read_gold(stem: str | os.PathLike[str], *, base: int = 1) -> Iterator[Gold]:
    """Yield aligned sentence pairs. STEM.src-tgt has `source ||| target`, one pair per line;
    STEM.gold has `1-1` for a sure link and `2p3` for a possible one, words counted from `base`."""
    texts, links = (Path(f"{stem}.{end}") for end in ("src-tgt", "gold"))
    for one, two in zip_longest(read_lines(texts), read_lines(links)):
        if one is None or two is None:
            raise InputError(f"{texts} and {links} have different numbers of lines: write one each")
        source, mark, target = one[1].partition("|||")
        if not mark:
            raise InputError(f"{texts}: line {one[0]}: write SOURCE ||| TARGET")
        sides = source.split(), target.split()
        yield Gold(*sides, *_links(two[1], sides, base, f"{links}: line {two[0]}"))


def _links(
    line: str, sides: tuple[list[str], list[str]], base: int, where: str
) -> tuple[frozenset[Link], frozenset[Link]]:
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise InputError(f"{where}: {word!r}: write a link as 1-1 (sure) or 1p1 (possible)")
        link = int(match[1]) - base, int(match[3]) - base
        if not all(0 <= i < len(side) for i, side in zip(link, sides, strict=True)):
            raise InputError(
                f"{where}: {word!r}: the texts have {len(sides[0])} and {len(sides[1])} words, "
                f"counted from {base}"
            )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)
