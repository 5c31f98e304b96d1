"""Every process has a share of each weight: torch's FSDP2."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.utils import _pytree as pytree

from glassformer.distributed import DistributedContext
from glassformer.model.block import Block
from glassformer.tasks import LossSum, Output, Task
from glassformer.train.parallel.base import ParallelWeights
from glassformer.train.parallel.matrices import MatrixExchange

# FSDP2 looks for the tensors in a module's output, to gather weights before its backward pass.
for kind in (LossSum, Output):
    pytree.register_dataclass(kind)


class ShardedWeights(ParallelWeights):
    """The rows of each tensor are split over the processes, as by `torch.chunk`. Weights of a block
    are gathered for its forward and backward pass, those outside of blocks for the whole pass.
    Those of a model with an adapter are `fixed`: they are sharded, and no master weights."""

    def __init__(
        self,
        task: Task,
        dtype: torch.dtype,
        world: DistributedContext,
        fixed: Collection[str] = (),
    ) -> None:
        super().__init__(task, dtype, world)
        self.outline: Task = _outline(task)
        self.mesh = init_device_mesh(world.device.type, (world.size,))
        self.host_mesh = init_device_mesh("cpu", (world.size,))
        # Checkpoints are written in the background: they need a group of their own.
        self.host_group = dist.new_group(backend="gloo")
        half = dtype != torch.float32
        policy = MixedPrecisionPolicy(
            param_dtype=dtype if half else None, reduce_dtype=torch.float32 if half else None
        )
        # A single process gathers nothing, so that it may keep its weights in `dtype`.
        again = world.size > 1
        for module in [*task.modules()]:
            if isinstance(module, Block):
                fully_shard(module, mesh=self.mesh, mp_policy=policy, reshard_after_forward=again)
                _keep_inputs(module)
        fully_shard(task, mesh=self.mesh, mp_policy=policy)
        _keep_inputs(task)
        if half:  # the policy is for parameters alone
            for name, buffer in task.named_buffers():
                place, _, leaf = name.rpartition(".")
                if buffer.is_floating_point():
                    setattr(task.get_submodule(place), leaf, buffer.to(dtype))
        # Optimisers update the local tensors, which the sharded parameters consist of.
        shares = {name: _local(p.detach()) for name, p in task.named_parameters()}
        self.shapes = {name: p.shape for name, p in task.named_parameters()}
        self.sharded = {n: p for n, p in task.named_parameters() if n not in fixed}
        self.masters = {name: shares[name] for name in self.sharded}
        self.fixed = {name: shares[name] for name in fixed}
        self.exchange = MatrixExchange(self.masters, self.shapes, world)

    def losses(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    @torch.no_grad()
    def gradients(self) -> dict[str, Tensor | None]:
        return {
            name: None if p.grad is None else _local(p.grad)
            for name, p in self.sharded.items()
            if p.requires_grad
        }

    def total(self, squares: Tensor) -> Tensor:
        return self.world.sum(squares)

    def share(self, name: str, whole: Tensor) -> Tensor:
        if whole.shape != self.shapes[name]:  # a scalar, such as AdamW's number of steps
            return whole
        parts = whole.chunk(self.world.size)
        share = parts[self.world.rank] if self.world.rank < len(parts) else whole[:0]
        return share.clone()  # a view would keep the whole

    def refresh(self) -> None:
        """Weights that are still gathered are those of before."""
        for module in self.task.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def as_dtensor(self, name: str, share: Tensor, *, on_host: bool = False) -> Tensor:
        """A tensor of which this process has `share`, as torch describes it; a scalar as it is."""
        shape = self.shapes[name]
        if share.shape[1:] != shape[1:] or share.dim() != len(shape):
            return share
        stride = torch.empty(shape, device="meta").stride()
        mesh = self.host_mesh if on_host else self.mesh
        return DTensor.from_local(
            share, mesh, [Shard(0)], run_check=False, shape=shape, stride=stride
        )

    def whole(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """On the main process the whole tensors, on the CPU; nothing on the others. One tensor at a
        time is gathered."""
        tensors: dict[str, Tensor] = {}
        for name, share in values.items():
            tensor = self.as_dtensor(name, share)
            full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            if self.world.is_main:
                tensors[name] = full.cpu()
        return tensors


class _Opaque:
    """An input of a module that FSDP2 does not look into."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _keep_inputs(module: nn.Module) -> None:
    """FSDP2 searches the inputs of a module for tensors, down to the length of each text, at every
    call: for 512 texts and 12 blocks that takes as long as half of a step. Its own hook runs
    between these two."""

    def hide(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each if isinstance(each, Tensor) else _Opaque(each) for each in inputs)

    def restore(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each.value if isinstance(each, _Opaque) else each for each in inputs)

    module.register_forward_pre_hook(hide, prepend=True)
    module.register_forward_pre_hook(restore)


def _local(tensor: Tensor) -> Tensor:
    assert isinstance(tensor, DTensor)  # noqa: S101
    return tensor.to_local()


def _outline(task: Task) -> Task:
    """A copy of the task whose parameters have shapes, but no values."""
    empty = {id(p): nn.Parameter(torch.empty_like(p, device="meta")) for p in task.parameters()}
    return copy.deepcopy(task, empty)
