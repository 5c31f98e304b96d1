"""Weights that learn: float32 masters, their gradients in one buffer, and who moves them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.fields import TrainConfig
from glassformer.train.optim.adamw import AdamW
from glassformer.train.optim.muon import Muon

# Matrices inside the blocks are Muon's; tables, norms and biases stay AdamW's.
MATRIX = re.compile(r"\.blocks\.\d+\..*\.weight$")
BLOCK = re.compile(r"\.blocks\.(\d+)\.")


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
        known, given, untouched = [], [], []
        for part, learner in zip(parts, self.learners, strict=True):
            if learner.grad is None:  # the row did not touch it
                untouched.append(part)
            else:
                known.append(part)
                given.append(learner.grad)
                learner.grad = None
        torch._foreach_copy_(known, given)
        if untouched:
            torch._foreach_zero_(untouched)
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


def optimisers(weights: Weights, train: TrainConfig) -> list[torch.optim.Optimizer]:
    """Decay is for matrices, not for norms and biases."""
    rate, matrices, rest = train.learning_rate, _Groups(), _Groups()
    scales = rates(list(weights.masters), train.layerwise_lr_decay)
    still = set(frozen(list(weights.masters), train.freeze))
    for name, master in weights.masters.items():
        if name in still:
            continue
        muon = train.optimiser == "muon" and master.dim() == 2 and MATRIX.search(name)
        decay = train.weight_decay if master.dim() >= 2 else 0.0
        (matrices if muon else rest).add(name, master, decay, scales[name])
    found: list[torch.optim.Optimizer] = []
    if rest.found:
        found.append(
            AdamW(list(rest.found.values()), lr=rate, betas=train.betas, eps=train.eps, fused=True)
        )
    if matrices.found:
        found.append(Muon(list(matrices.found.values()), lr=rate))
    return found


class _Groups:
    """Parameters that are moved in the same way."""

    def __init__(self) -> None:
        self.found: dict[tuple[float, float], dict[str, Any]] = {}

    def add(self, name: str, parameter: Tensor, decay: float, scale: float) -> None:
        group = {"params": [], "weight_decay": decay, "scale": scale}
        self.found.setdefault((decay, scale), group)["params"].append((name, parameter))


def rates(names: Sequence[str], decay: float) -> dict[str, float]:
    """What share of the learning rate each parameter has: the head all of it, the highest block
    `decay`, the one below it decay², …, the embeddings the least."""
    depth = _depth(names)
    return {name: decay ** (depth - _level(name, depth)) for name in names}


def frozen(names: Sequence[str], blocks: int) -> list[str]:
    """The embeddings and so many of the lowest blocks; nothing, if it is 0."""
    depth = _depth(names)
    return [name for name in names if blocks and _level(name, depth) < min(blocks, depth)]


def _depth(names: Iterable[str]) -> int:
    return max((int(found[1]) for found in map(BLOCK.search, names) if found), default=-1) + 1


def _level(name: str, depth: int) -> int:
    """-1 of the embeddings, the number of a block, and behind the last one what stands on them."""
    block = BLOCK.search(name)
    return int(block[1]) if block else -1 if ".embedding." in name else depth


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
