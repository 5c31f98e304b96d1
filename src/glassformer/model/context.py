"""What belongs to one call, not to the weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from glassformer.model.cache import Cache
from glassformer.model.sequences import Sequences


class Visitor(Protocol):
    """Somebody who looks inside, and may put another tensor in its place."""

    def wants(self, module: nn.Module, name: str) -> bool: ...

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Look:
    """Looking inside costs nothing when nobody looks."""

    visitor: Visitor | None = None

    def see(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        """The identity, unless a recorder is listening."""
        return value if self.visitor is None else self.visitor.visit(module, name, value)

    def opens(self, module: nn.Module) -> bool:
        """Does somebody want to see between q, k, v and their mixture? No kernel shows that."""
        return self.visitor is not None and (
            self.visitor.wants(module, "scores") or self.visitor.wants(module, "weights")
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Context(Look):
    """Made once by `Stack.forward` and handed down to every layer."""

    queries: Sequences
    keys: Sequences  # as queries, or longer by what the cache remembers
    causal: bool
    texts: Tensor  # (N,) which text each token is of
    positions: Tensor  # (N,) and its place there, what the cache remembers counted in
    rotation: Tensor | None = None  # (2, N, D/2) cos and sin at each token's position
    local_rotation: Tensor | None = None  # the same for layers with a window
    bias: Tensor | None = None  # (1 or B, H, T, S) added to the scores: relative positions
    memory: Tensor | None = None  # (M, C) what the encoder made of the source
    memory_keys: Sequences | None = None
    cross_queries: Sequences | None = None  # of cross-attention; a text's beams count as one
    cache: Cache | None = None
    masks: dict[Any, Tensor | None] = field(default_factory=dict)  # made by the first layer

    def turn(self, *, cross: bool, local: bool) -> Tensor | None:
        """How queries and keys are turned; between two texts (cross) they are not."""
        if cross:
            return None
        return self.local_rotation if local else self.rotation
