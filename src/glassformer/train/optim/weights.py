"""Trainable weights: float32 masters, their gradients in one buffer, and their optimisers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.fields import TrainConfig
from glassformer.tasks import Task
from glassformer.train.optim.adamw import AdamW
from glassformer.train.optim.muon import Muon
from glassformer.train.parallel.base import ParallelWeights
from glassformer.train.parallel.matrices import MatrixExchange

# Muon updates the matrices inside the blocks; AdamW updates tables, norms and biases.
MATRIX = re.compile(r"\.blocks\.\d+\..*\.weight$")
BLOCK = re.compile(r"\.blocks\.(\d+)\.")


class Weights:
    """Those of a single process. The model computes in `dtype`; the master weights are kept in
    float32.

    bfloat16 has 8 significant bits: a small update of a weight would be rounded away. Weights of a
    model with an adapter are `fixed`: they are only computed with.
    """

    scale = 1  # of the loss before the backward pass
    outline: Task | None = None
    exchange: MatrixExchange | None = None

    def __init__(self, model: nn.Module, dtype: torch.dtype, fixed: Collection[str] = ()) -> None:
        parameters = {n: p for n, p in model.named_parameters() if n not in fixed}
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
        # One buffer for all gradients: measured and clipped at once.
        self.parameters: list[Tensor] = list(parameters.values())
        device = self.parameters[0].device
        self.gradient = torch.zeros(sum(sizes), device=device)
        self.parts = self._split(self.gradient)
        self.row: Tensor | None = None  # a second buffer, if a step has several rows

    def _split(self, buffer: Tensor) -> list[Tensor]:
        parts = buffer.split([p.numel() for p in self.parameters])
        return [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)]

    def losses(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The losses of a batch, as they are computed in training."""
        return function

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Another function of a batch, computed in the same precision."""
        return function

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        """Around the forward and backward pass of a row; `last`: the step has no further row."""
        return nullcontext()

    @torch.no_grad()
    def collect(self, *, first: bool) -> None:
        """After the backward pass of each row: add its gradients to the step's, in float32."""
        if not first and self.row is None:
            self.row = torch.zeros_like(self.gradient)
        parts = self.parts if first or self.row is None else self._split(self.row)
        targets, gradients, untouched = [], [], []
        for part, parameter in zip(parts, self.parameters, strict=True):
            if parameter.grad is None:  # the row has no gradient for it
                untouched.append(part)
            else:
                targets.append(part)
                gradients.append(parameter.grad)
                parameter.grad = None
        torch._foreach_copy_(targets, gradients)
        if untouched:
            torch._foreach_zero_(untouched)
        if not first and self.row is not None:
            self.gradient.add_(self.row)

    def lend(self) -> None:
        """For the optimiser: each master's gradient is its part of the buffer."""
        for master, part in zip(self.masters.values(), self.parts, strict=True):
            master.grad = part

    def take_back(self) -> None:
        """After the optimiser: masters keep no gradients."""
        for master in self.masters.values():
            master.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """After each step: the model computes with the new weights."""
        if self.copies:
            torch._foreach_copy_(self.copies, list(self.masters.values()))

    def refresh(self) -> None:
        """After a change of the parameters outside of a step."""

    @torch.no_grad()
    def clip(self, max_norm: float) -> Tensor:
        """Clip the gradient to `max_norm`; returns its norm before."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def finite(self) -> bool:
        """Whether all weights are finite."""
        checks = [p.isfinite().all() for p in self.masters.values()]
        return bool(torch.stack(checks).all())

    def share(self, name: str, whole: Tensor) -> Tensor:
        """Of a whole tensor, what this process has of it: all."""
        return whole


def optimisers(
    weights: Weights | ParallelWeights, train: TrainConfig
) -> list[torch.optim.Optimizer]:
    """The optimisers of the recipe. Weight decay applies to matrices, not to norms and biases."""
    rate, matrices, others = train.learning_rate, _Groups(), _Groups()
    scales = rates(list(weights.masters), train.layerwise_lr_decay)
    frozen_names = set(frozen(list(weights.masters), train.freeze))
    for name, master in weights.masters.items():
        if name in frozen_names:
            continue
        muon = train.optimiser == "muon" and master.dim() == 2 and MATRIX.search(name)
        decay = train.weight_decay if master.dim() >= 2 else 0.0
        (matrices if muon else others).add(name, master, decay, scales[name])
    results: list[torch.optim.Optimizer] = []
    if others.groups:
        results.append(
            AdamW(
                list(others.groups.values()), lr=rate, betas=train.betas, eps=train.eps, fused=True
            )
        )
    if matrices.groups:
        results.append(Muon(list(matrices.groups.values()), lr=rate, exchange=weights.exchange))
    return results


class _Groups:
    """Parameter groups with the same weight decay and scale of the learning rate."""

    def __init__(self) -> None:
        self.groups: dict[tuple[float, float], dict[str, Any]] = {}

    def add(self, name: str, parameter: Tensor, decay: float, scale: float) -> None:
        group = {"params": [], "weight_decay": decay, "scale": scale}
        self.groups.setdefault((decay, scale), group)["params"].append((name, parameter))


def rates(names: Sequence[str], decay: float) -> dict[str, float]:
    """The scale of the learning rate of each parameter: 1 for the head, `decay` for the highest
    block, decay² for the one below, …, the smallest for the embeddings."""
    depth = _depth(names)
    return {name: decay ** (depth - _level(name, depth)) for name in names}


def frozen(names: Sequence[str], blocks: int) -> list[str]:
    """The frozen parameters: the embeddings and this many of the lowest blocks; none if 0."""
    depth = _depth(names)
    return [name for name in names if blocks and _level(name, depth) < min(blocks, depth)]


def _depth(names: Iterable[str]) -> int:
    return max((int(match[1]) for match in map(BLOCK.search, names) if match), default=-1) + 1


def _level(name: str, depth: int) -> int:
    """-1 for the embeddings, the number of a block, and `depth` for everything above."""
    block = BLOCK.search(name)
    return int(block[1]) if block else -1 if ".embedding." in name else depth


def named_state(optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the name of a parameter, the name of a state, and its tensor."""
    for group in optimiser.param_groups:
        for name, parameter in zip(group["param_names"], group["params"], strict=True):
            for what, value in optimiser.state.get(parameter, {}).items():
                yield name, what, value


def restore(optimiser: torch.optim.Optimizer, states: dict[str, dict[str, Tensor]]) -> None:
    """Replace the optimiser's state by the states of named parameters."""
    optimiser.state.clear()  # empty before the first step
    for group in optimiser.param_groups:
        for name, parameter in zip(group["param_names"], group["params"], strict=True):
            if name in states:
                optimiser.state[parameter] = states[name]
