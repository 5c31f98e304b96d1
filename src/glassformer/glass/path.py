"""One word's vector on its way through the layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError
from glassformer.glass.measures import SPACES
from glassformer.glass.stacks import sides, stream
from glassformer.glass.trace import Trace


@dataclass(frozen=True, eq=False)
class Path:
    """Where the vector was seen, and at each point: its length, its cosine to both ends."""

    token: str
    points: list[str]
    norm: Tensor  # (P,)
    to_start: Tensor  # (P,) 1 at the first point: the word without its text
    to_end: Tensor  # (P,) 1 at the last point: the word in its text


def word_path(trace: Trace, token: int | str, stack: str, *, inside: bool = False) -> Path:
    """How a word becomes a word in its text: how far its vector turns, layer by layer.

    Ethayarajh 2019, "How contextual are contextualized word representations?".
    """
    tokens, _ = sides(trace, stack)
    place = position(tokens, token)
    points = stream(trace, stack, inside=inside)
    vectors = torch.stack([each[place] for each in points.values()])  # (P, C)
    return Path(
        token=tokens[place],
        points=list(points),
        norm=vectors.norm(dim=-1),
        to_start=F.cosine_similarity(vectors, vectors[:1], dim=-1),
        to_end=F.cosine_similarity(vectors, vectors[-1:], dim=-1),
    )


def between(
    one: tuple[Trace, int | str],
    other: tuple[Trace, int | str],
    stack: str,
    *,
    inside: bool = False,
) -> Tensor:  # (P,)
    """The cosine of two words, each in its own text, layer by layer: the two "bank"s."""
    ways = [
        [each[position(sides(trace, stack)[0], token)] for each in points.values()]
        for trace, token in (one, other)
        for points in (stream(trace, stack, inside=inside),)
    ]
    a, b = map(torch.stack, ways)
    return F.cosine_similarity(a, b, dim=-1)


def position(tokens: list[str], token: int | str) -> int:
    """A token's place: its number, or the first one that is written so."""
    if isinstance(token, int):
        if not 0 <= token < len(tokens):
            raise ConfigError(f"token {token}: the text has tokens 0 to {len(tokens) - 1}")
        return token
    bare = [each.strip(SPACES) for each in tokens]
    for names in (tokens, bare):
        if token in names:
            return names.index(token)
    raise ConfigError(f"token {token!r} is not in the text: {' '.join(tokens):.200}")
