"""Compiled decoding steps: the small operations between the products become one program.

A step of a small model has some hundred products and thousands of small operations, each of which
Python starts separately on a CPU; on a GPU each of them reads and writes memory. Torch keeps the
compiled programs on disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.generate.cuda_graphs import Step, rounded_reach
from glassformer.model import Cache
from glassformer.tasks import Task
from glassformer.tasks.quantize import quantization

COMPILERS = ("g++", "clang++", "c++", "cl")
# All engines of a process compile the same function: torch's limits are for one.
LIMITS = {"recompile_limit": 1000, "accumulated_recompile_limit": 1000}


class CompiledSteps:
    """For a CPU: compiled at the first step, and once more after the first 64 tokens."""

    def __init__(self, step: Step, task: Task) -> None:
        if (method := quantization(task)) is not None:
            raise InputError(f"compiled = True: the weights are {method}: leave it out")
        if not any(map(shutil.which, (os.environ.get("CXX", "c++"), *COMPILERS))):
            raise InputError(
                "compiled = True: there is no C++ compiler: install g++, or leave it out"
            )
        self.step = torch.compile(step, fullgraph=True)

    def __call__(self, tokens: Tensor, cache: Cache) -> Tensor:
        counts = cache.grown((1,) * len(tokens))
        cache.reach = rounded_reach(counts, cache.capacity)
        try:
            with torch._dynamo.config.patch(LIMITS):
                logits = self.step(tokens)
        finally:
            cache.reach = None
        cache.counts = counts
        return logits


def compile_for_gpu(step: Step, slots: int) -> Step:
    """The same step, which StepGraphs then captures. With several slots it keeps the weights as
    they are at the first step."""
    one = slots == 1
    compiled = torch.compile(step, fullgraph=True, backend=_row_products if one else "inductor")

    def run(tokens: Tensor) -> Tensor:
        # With constant weights, products of one input (queries, keys and values) become one.
        freezing = torch._inductor.config.patch(freezing=not one)
        with freezing, torch._dynamo.config.patch(LIMITS):
            return compiled(tokens)

    return run


def _row_products(graph: fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
    """A compiler that writes the product of a matrix and a single row as a sum over its columns.

    Its loops then fuse with the operations before and after them; the library's products do not.
    """
    for node in graph.graph.nodes:
        if node.target is F.linear and node.meta["example_value"].shape[0] == 1:
            node.target = _row_product
    graph.recompile()
    compiled: Callable[..., object] = torch._dynamo.lookup_backend("inductor")(graph, inputs)
    return compiled


def _row_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y = (weight.float() * x.float()).sum(-1)[None]
    return (y if bias is None else y + bias.float()).to(x.dtype)
