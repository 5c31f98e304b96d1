"""One word's vector, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError
from glassformer.glass.measures import SPACES
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.stacks import sides, stream


@dataclass(frozen=True, eq=False)
class WordPath:
    """A word's vector at each point of the stream: its length and its cosine to both ends."""

    token: str
    points: list[str]
    norm: Tensor  # (P,)
    to_start: Tensor  # (P,) 1 at the first point: the word without its text
    to_end: Tensor  # (P,) 1 at the last point: the word in its text


def word_path(
    trace: RecordedTensors, token: int | str, stack: str, *, inside: bool = False
) -> WordPath:
    """How a word's vector takes up its context: how far it turns, layer by layer.

    Args:
        token: its number, or its text
        inside: also between the parts of a block

    Ethayarajh 2019, "How contextual are contextualized word representations?".
    """
    tokens, _ = sides(trace, stack)
    place = position(tokens, token)
    points = stream(trace, stack, inside=inside)
    vectors = torch.stack([row[place] for row in points.values()])  # (P, C)
    return WordPath(
        token=tokens[place],
        points=list(points),
        norm=vectors.norm(dim=-1),
        to_start=F.cosine_similarity(vectors, vectors[:1], dim=-1),
        to_end=F.cosine_similarity(vectors, vectors[-1:], dim=-1),
    )


def between(
    one: tuple[RecordedTensors, int | str],
    other: tuple[RecordedTensors, int | str],
    stack: str,
    *,
    inside: bool = False,
) -> Tensor:  # (P,)
    """The cosine of two words, each in its own text, layer by layer: the two "bank"s."""
    paths = [
        [vectors[position(sides(trace, stack)[0], token)] for vectors in points.values()]
        for trace, token in (one, other)
        for points in (stream(trace, stack, inside=inside),)
    ]
    a, b = map(torch.stack, paths)
    return F.cosine_similarity(a, b, dim=-1)


def position(tokens: list[str], token: int | str) -> int:
    """A token's number; of a text, the number of the first token that is written so."""
    if isinstance(token, int):
        if not 0 <= token < len(tokens):
            raise ConfigError(f"token {token}: the text has tokens 0 to {len(tokens) - 1}")
        return token
    bare = [name.strip(SPACES) for name in tokens]
    for names in (tokens, bare):
        if token in names:
            return names.index(token)
    raise ConfigError(f"token {token!r} is not in the text: {' '.join(tokens):.200}")
