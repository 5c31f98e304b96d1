"""Muon for many matrices at a time.

torch's Muon updates one matrix after the other, with about thirty small kernels each, and leaves a
GPU that could update all of them at once waiting. The results are the same up to rounding.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.precision import compute_dtype
from glassformer.train.optim.adamw import SlimOptimizer
from glassformer.train.parallel.matrices import MatrixExchange


class Muon(SlimOptimizer, torch.optim.Muon):
    """With Nesterov momentum; its learning rates are of the size of AdamW's.

    `exchange` brings together matrices whose rows are split over several processes.
    """

    def __init__(self, params: Any, *, exchange: MatrixExchange | None = None, **options: Any):
        super().__init__(params, **options)
        self.exchange = exchange

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    shape = matrix.shape if self.exchange is None else self.exchange.shape(matrix)
                    by_shape.setdefault(shape, []).append(matrix)
            for shape, matrices in by_shape.items():
                self._update(matrices, shape, group)
        return loss

    def _update(self, matrices: list[Tensor], shape: torch.Size, group: dict[str, Any]) -> None:
        """Update matrices of one shape, or a process's rows of them."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        states = [self.state[matrix] for matrix in matrices]
        for state, gradient in zip(states, gradients, strict=True):
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
        buffers = [state["momentum_buffer"] for state in states]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        updates = torch._foreach_lerp(gradients, buffers, group["momentum"])
        newton_schulz = partial(
            orthogonal, coefficients=group["ns_coefficients"], steps=group["ns_steps"]
        )
        if self.exchange is None:
            orthogonalised = list(newton_schulz(torch.stack(list(updates))).float())
        else:
            orthogonalised = self.exchange.apply(newton_schulz, updates, shape)
        rate = group["lr"] * 0.2 * math.sqrt(max(shape))
        torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(matrices, orthogonalised, alpha=-rate)


def orthogonal(matrices: Tensor, coefficients: tuple[float, float, float], steps: int) -> Tensor:
    """Matrices (n, a, b) with all singular values near 1, by Newton-Schulz iteration, in bfloat16
    where that is fast."""
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.to(compute_dtype(torch.bfloat16, matrices.device).dtype)
    x = x.mT if tall else x
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
