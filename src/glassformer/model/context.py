"""What belongs to one call, not to the weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from glassformer.model.cache import Cache
from glassformer.model.sequences import Sequences


class Visitor(Protocol):
    """Sees the tensors inside a model, and may replace them."""

    def wants(self, module: nn.Module, name: str) -> bool: ...

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Look:
    """Shows tensors to a visitor; without one it costs nothing."""

    visitor: Visitor | None = None

    def see(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        """`value`, or what the visitor replaces it with."""
        return value if self.visitor is None else self.visitor.visit(module, name, value)

    def opens(self, module: nn.Module) -> bool:
        """Does the visitor want the scores or weights? No kernel shows them."""
        return self.visitor is not None and (
            self.visitor.wants(module, "scores") or self.visitor.wants(module, "weights")
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Context(Look):
    """Created once by `Stack.forward` and passed to every layer."""

    queries: Sequences
    keys: Sequences  # as queries, or longer by what the cache holds
    causal: bool
    texts: Tensor  # (N,) the text that each token belongs to
    positions: Tensor  # (N,) its position there, counted from the start of the cache
    rotation: Tensor | None = None  # (2, N, D/2) cos and sin at each token's position
    local_rotation: Tensor | None = None  # for layers with a window, if theirs differs
    bias: Tensor | None = None  # (1 or B, H, T, S) added to the scores: relative positions
    distances: tuple[Tensor, Tensor] | None = None  # (R, C) their vectors, (T, S) the row of each
    memory: Tensor | None = None  # (M, C) the encoder's output for the source
    memory_keys: Sequences | None = None
    cross_queries: Sequences | None = None  # as queries, or with a text's beams as one text
    cache: Cache | None = None
    masks: dict[Any, Tensor | None] = field(default_factory=dict)  # shared by the layers

    def turn(self, *, local: bool) -> Tensor | None:
        """The rotation of queries and keys; `local`: in a layer with a window."""
        return self.local_rotation if local and self.local_rotation is not None else self.rotation
