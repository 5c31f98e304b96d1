"""AdamW by torch's fused kernel, without torch's overhead.

In every step torch checks the dtype, device and state of each parameter, which never change.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class SlimOptimizer(Optimizer):
    """torch wraps this method to exclude it from its compiler, and imports that: two seconds."""

    add_param_group = getattr(Optimizer.add_param_group, "__wrapped__", Optimizer.add_param_group)


class AdamW(SlimOptimizer, torch.optim.AdamW):
    """The same results as torch's AdamW with `fused`, bit for bit."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            states = [self.state[p] or self._init_state(p) for p in parameters]
            steps = [each["step"] for each in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                parameters, [p.grad for p in parameters], [each["exp_avg"] for each in states],
                [each["exp_avg_sq"] for each in states], [], steps, lr=group["lr"],
                beta1=group["betas"][0], beta2=group["betas"][1], eps=group["eps"],
                weight_decay=group["weight_decay"], amsgrad=False, maximize=False,
            )  # fmt: skip
        return loss

    def _init_state(self, parameter: Tensor) -> dict[str, Tensor]:
        """The state of a parameter before its first step."""
        state = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        self.state[parameter] = state
        return state
