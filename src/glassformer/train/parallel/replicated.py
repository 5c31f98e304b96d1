"""Every process has all weights: torch's DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from glassformer.distributed import DistributedContext
from glassformer.tasks import Task
from glassformer.train.parallel.base import ParallelWeights


class ReplicatedWeights(ParallelWeights):
    def __init__(
        self,
        task: Task,
        dtype: torch.dtype,
        world: DistributedContext,
        fixed: Collection[str] = (),
    ) -> None:
        super().__init__(task, dtype, world)
        self.masters = {n: p for n, p in task.named_parameters() if n not in fixed}
        self._replica: DistributedDataParallel | None = None

    def losses(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self._replica is None:  # its hooks stay on the parameters
            module = InPrecision(self.task, function, self.dtype)
            # Buffers are constants: they need not be sent with every step.
            ignored = [name for name, _ in module.named_buffers()]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, ignored)
            # torch warns if each row touches all weights.
            module.untouched = nn.Parameter(torch.zeros(1, device=self.world.device))
            # A row may leave weights untouched. Finding them also keeps the order of summation:
            # otherwise torch rearranges it after the first step, and a resumed run would not have
            # the same bits.
            self._replica = DistributedDataParallel(
                module, find_unused_parameters=True, gradient_as_bucket_view=True
            )
        return self._replica

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return InPrecision(self.task, function, self.dtype)

    def accumulating(self, *, last: bool) -> AbstractContextManager[object]:
        return nullcontext() if last or self._replica is None else self._replica.no_sync()

    def gradients(self) -> dict[str, Tensor | None]:
        return {name: p.grad for name, p in self.masters.items() if p.requires_grad}

    def total(self, squares: Tensor) -> Tensor:
        return squares

    def share(self, name: str, whole: Tensor) -> Tensor:
        return whole


class InPrecision(nn.Module):
    """A function of a batch that the task computes in `dtype`; its gradients are float32, like its
    weights."""

    def __init__(self, task: Task, function: Callable[..., Any], dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = _Function(task, function), dtype

    def forward(self, *inputs: Any) -> Any:
        if self.dtype == torch.float32:
            return self.inner(*inputs)
        tensors = {**dict(self.inner.named_parameters()), **dict(self.inner.named_buffers())}
        cast = {n: t.to(self.dtype) if t.is_floating_point() else t for n, t in tensors.items()}
        return functional_call(self.inner, cast, inputs)


class _Function(nn.Module):
    """A function that calls the task, as a module with the task's weights."""

    def __init__(self, task: Task, function: Callable[..., Any]) -> None:
        super().__init__()
        self.task, self.function = task, function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)
