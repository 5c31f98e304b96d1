"""A row of `glassformer reproduce`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReproducedEffect:
    """One figure of a paper, and ours."""

    effect: str
    paper: str
    published: str
    ours: str
    holds: bool  # the sign and order of the paper
