"""Muon for many matrices at a time.

torch's Muon updates one matrix after the other, with about thirty small kernels each, and leaves a
GPU that could update all of them at once waiting. The results are the same up to rounding.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from glassformer.precision import compute_dtype
from glassformer.train.optim.adamw import SlimOptimizer


class Muon(SlimOptimizer, torch.optim.Muon):
    """With Nesterov momentum; its learning rates are of the size of AdamW's."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._update(matrices, group)
        return loss

    def _update(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        """Update matrices of one shape."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        states = [self.state[matrix] for matrix in matrices]
        for state, gradient in zip(states, gradients, strict=True):
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(gradient)
        buffers = [state["momentum_buffer"] for state in states]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        updates = torch._foreach_lerp(gradients, buffers, group["momentum"])
        orthogonalised = orthogonal(
            torch.stack(list(updates)), group["ns_coefficients"], group["ns_steps"]
        )
        rate = group["lr"] * 0.2 * math.sqrt(max(matrices[0].shape))
        torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(matrices, list(orthogonalised.float()), alpha=-rate)


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
