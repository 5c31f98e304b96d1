"""Weights that learn: float32 masters, their gradients in one buffer, and who moves them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from glassformer.train.recipe import Train

# Matrices inside the blocks are Muon's; tables, norms and biases stay AdamW's.
MATRIX = re.compile(r"\.blocks\.\d+\..*\.weight$")


class Weights:
    """The model computes in `dtype`; what is learnt is kept in float32.

    bf16 has 8 bits for a number: a small step added to a weight would be rounded away.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        parameters = dict(model.named_parameters())
        self.masters: dict[str, Tensor] = {
            name: p if dtype == torch.float32 else p.detach().float().clone()
            for name, p in parameters.items()
        }
        if dtype != torch.float32:
            model.to(dtype)
        self.copies: list[Tensor] = []
        if dtype != torch.float32:
            self.copies += parameters.values()
        sizes = [p.numel() for p in self.masters.values()]
        # One buffer for all gradients: summed over processes, measured and clipped at once.
        self.learners: list[Tensor] = list(parameters.values())
        place = self.learners[0].device
        self.gradient = torch.zeros(sum(sizes), device=place)
        self.parts = self._split(self.gradient)
        self.row: Tensor | None = None  # a second one, where a step has several rows

    def _split(self, whole: Tensor) -> list[Tensor]:
        parts = whole.split([p.numel() for p in self.learners])
        return [part.view_as(p) for part, p in zip(parts, self.learners, strict=True)]

    @torch.no_grad()
    def collect(self, *, first: bool) -> None:
        """After each row's backward: add its gradients to the step's, in float32."""
        if not first and self.row is None:
            self.row = torch.zeros_like(self.gradient)
        parts = self.parts if first or self.row is None else self._split(self.row)
        known: list[tuple[Tensor, Tensor]] = []
        for part, learner in zip(parts, self.learners, strict=True):
            if learner.grad is None:  # the row did not touch it
                part.zero_()
            else:
                known.append((part, learner.grad))
            learner.grad = None
        torch._foreach_copy_([part for part, _ in known], [grad for _, grad in known])
        if not first and self.row is not None:
            self.gradient.add_(self.row)

    def lend(self) -> None:
        """For the optimiser: each master's gradient is its part of the buffer."""
        for master, part in zip(self.masters.values(), self.parts, strict=True):
            master.grad = part

    def take_back(self) -> None:
        for master in self.masters.values():
            master.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """After each step: the model computes with the new weights."""
        if self.copies:
            torch._foreach_copy_(self.copies, list(self.masters.values()))

    @torch.no_grad()
    def clip(self, most: float) -> Tensor:
        """Shorten the gradient to `most`; returns how long it was."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((most / (norm + 1e-6)).clamp(max=1.0))
        return norm


def optimisers(weights: Weights, train: Train) -> list[torch.optim.Optimizer]:
    """Decay is for matrices, not for norms and biases."""
    named = weights.masters.items()
    matrices = [(n, p) for n, p in named if train.optimiser == "muon" and p.dim() == 2
                and MATRIX.search(n)]  # fmt: skip
    rest = [(n, p) for n, p in named if n not in dict(matrices)]
    groups = [
        {"params": [(n, p) for n, p in rest if p.dim() >= 2], "weight_decay": train.weight_decay},
        {"params": [(n, p) for n, p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    rate = train.learning_rate
    found: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=rate,
            betas=train.betas,
            eps=train.eps,
            fused=True,
        )
    ]
    if matrices:
        found.append(
            torch.optim.Muon(
                matrices, lr=rate, weight_decay=train.weight_decay, adjust_lr_fn="match_rms_adamw"
            )
        )
    return found


def named_state(optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, str, Tensor]]:
    """Parameter, what is remembered of it, the tensor."""
    for group in optimiser.param_groups:
        for name, parameter in zip(group["param_names"], group["params"], strict=True):
            for what, value in optimiser.state.get(parameter, {}).items():
                yield name, what, value


def restore(optimiser: torch.optim.Optimizer, found: dict[str, dict[str, Tensor]]) -> None:
    optimiser.state.clear()  # before the first step there is nothing to remember
    for group in optimiser.param_groups:
        for name, parameter in zip(group["param_names"], group["params"], strict=True):
            if name in found:
                optimiser.state[parameter] = found[name]
