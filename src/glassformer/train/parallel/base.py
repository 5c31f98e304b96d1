"""What replicated and sharded weights have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from glassformer.distributed import DistributedContext
from glassformer.tasks import Task
from glassformer.train.parallel.matrices import MatrixExchange


class ParallelWeights(ABC):
    """Master weights in float32, from which the model computes in `dtype`. torch reduces the
    gradients over the processes while the backward pass runs, and adds up those of several rows.

    The methods are those of `Weights`. Abstract; every subclass is final.
    """

    masters: dict[str, Tensor]  # those that this process updates
    copies: tuple[Tensor, ...] = ()
    outline: Task | None = None  # of sharded weights: the task without values
    exchange: MatrixExchange | None = None  # of sharded weights: how to get whole matrices

    def __init__(self, task: Task, dtype: torch.dtype, world: DistributedContext) -> None:
        self.task, self.dtype, self.world = task, dtype, world

    @property
    def parameters(self) -> list[Tensor]:
        return list(self.masters.values())

    @property
    def scale(self) -> int:
        """torch averages the gradients over the processes, and a step needs their sum."""
        return self.world.size

    @abstractmethod
    def losses(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The losses of a batch, computed so that torch reduces their gradients."""

    @abstractmethod
    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Another function of a batch, computed in the same precision."""

    @abstractmethod
    def gradients(self) -> dict[str, Tensor | None]:
        """The gradient of each master weight, after the last backward pass."""

    @abstractmethod
    def total(self, squares: Tensor) -> Tensor:
        """The sum of the masters' squares over the whole model, from that of this process."""

    @abstractmethod
    def share(self, name: str, whole: Tensor) -> Tensor:
        """Of a whole tensor, what this process has of it."""

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        """Around the forward and backward pass of a row; `last`: the step has no further row."""
        return nullcontext()

    def collect(self, *, first: bool) -> None:  # noqa: B027
        """After the backward pass of each row: torch has added its gradients already."""

    def lend(self) -> None:
        """For the optimiser: a weight that no row touched has a gradient of zeros."""
        for name, gradient in self.gradients().items():
            master = self.masters[name]
            master.grad = torch.zeros_like(master) if gradient is None else gradient

    def take_back(self) -> None:
        """After the optimiser: neither masters nor parameters keep gradients."""
        for tensor in (*self.masters.values(), *self.task.parameters()):
            tensor.grad = None

    def publish(self) -> None:
        """After each step: the model computes with the new weights."""
        self.refresh()

    def refresh(self) -> None:  # noqa: B027
        """After each change of the parameters."""

    @torch.no_grad()
    def clip(self, max_norm: float) -> Tensor:
        """Clip the gradient to `max_norm`; returns its norm before."""
        gradients = [each.grad for each in self.masters.values() if each.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        norm = self.total(norms.square().sum()).sqrt()
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def finite(self) -> bool:
        """Whether all weights of all processes are finite."""
        wrong = [(~p.isfinite()).sum() for p in self.masters.values()]
        return int(self.world.sum(torch.stack(wrong).sum())) == 0
