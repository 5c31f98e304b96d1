"""A model that computes something else in the place of a stack's blocks.

Embedding, final norm and head stay the model's own, and so do the weights: nothing is copied but
the modules that hold the stack.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from torch import Tensor, nn

from glassformer.model import Block
from glassformer.model.context import Context
from glassformer.model.stack import Stack
from glassformer.tasks import Task

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T", bound=Task)
Layers: TypeAlias = Callable[[Tensor, Context], Tensor]  # from the embedding to the last block


def stacks_of(task: Task) -> dict[str, Stack]:
    """The stacks of a model by their names, in the order of computation."""
    children = dict(task.backbone.named_children())
    return {name: body for name, body in children.items() if isinstance(body, Stack)}


def blocks_of(stack: Stack) -> list[Block]:
    """The blocks of a stack; a shared one is there for each layer."""
    return [block for block in stack.blocks if isinstance(block, Block)]


class _Computed(nn.Module):
    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        return self.layers(x, ctx)


def rerouted(task: T, stacks: Mapping[str, Layers]) -> T:
    """The task with these functions in the place of the blocks of "encoder" or "decoder"."""
    changed = _shallow(task)
    changed.backbone = _shallow(task.backbone)
    for name, layers in stacks.items():
        stack = _shallow(getattr(task.backbone, name))
        stack.blocks = nn.ModuleList([_Computed(layers)])
        setattr(changed.backbone, name, stack)
    return changed


def _shallow(module: M) -> M:
    """The same parameters and submodules, in a module whose submodules can be exchanged."""
    other = copy.copy(module)
    other.__dict__["_modules"] = dict(module._modules)
    return other
