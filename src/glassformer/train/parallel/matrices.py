"""Whole matrices out of shares, for optimisers that need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from glassformer.distributed import DistributedContext


class MatrixExchange:
    """Matrices whose rows are split over the processes. Each process in turn gets the whole of one,
    changes it, and sends the rows back: nobody has more than one whole matrix at a time."""

    def __init__(
        self, masters: Mapping[str, Tensor], shapes: Mapping[str, torch.Size],
        world: DistributedContext,
    ) -> None:  # fmt: skip
        self.world = world
        self._shapes = {id(master): shapes[name] for name, master in masters.items()}

    def shape(self, share: Tensor) -> torch.Size:
        """The shape of the whole matrix."""
        return self._shapes[id(share)]

    def apply(
        self, function: Callable[[Tensor], Tensor], shares: Sequence[Tensor], shape: torch.Size
    ) -> list[Tensor]:
        """This process's rows of `function(matrices)`, (n, a, b) → (n, a, b), for matrices of one
        shape."""
        size = self.world.size
        results: list[Tensor] = []
        for start in range(0, len(shares), size):
            results += self._block(function, shares[start : start + size], shape)
        return results

    def _block(
        self, function: Callable[[Tensor], Tensor], shares: Sequence[Tensor], shape: torch.Size
    ) -> list[Tensor]:
        """At most one matrix for each process: process k computes matrix k."""
        size, rank = self.world.size, self.world.rank
        rows = [len(part) for part in torch.empty(shape[0], device="meta").chunk(size)]
        rows += [0] * (size - len(rows))
        sent = [rows[rank] * shape[1] if k < len(shares) else 0 for k in range(size)]
        received = [rows[k] * shape[1] if rank < len(shares) else 0 for k in range(size)]
        own = torch.cat([share.reshape(-1) for share in shares])
        whole = own.new_empty(sum(received))
        dist.all_to_all_single(whole, own, received, sent)
        if rank < len(shares):
            whole = function(whole.view(1, *shape)).to(own.dtype).reshape(-1)
        result = torch.empty_like(own)
        dist.all_to_all_single(result, whole, sent, received)
        return list(result.view(len(shares), rows[rank], shape[1]).unbind())
