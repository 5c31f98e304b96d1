"""Decoding steps of a CPU, compiled: the small operations between the products become C++ loops.

A step of a small model has some hundred products and thousands of small operations, each of which
Python starts separately. Torch keeps the compiled programs on disk.
"""

from __future__ import annotations

import os
import shutil

import torch
from torch import Tensor

from glassformer.errors import InputError
from glassformer.generate.cuda_graphs import Step, rounded_reach
from glassformer.model import Cache

COMPILERS = ("g++", "clang++", "c++", "cl")


class CompiledSteps:
    """Compiled at the first step, and once more when the cache has outgrown its first 64 tokens."""

    def __init__(self, step: Step) -> None:
        if not any(map(shutil.which, (os.environ.get("CXX", "c++"), *COMPILERS))):
            raise InputError(
                "compiled = True: there is no C++ compiler: install g++, or leave it out"
            )
        self.step = torch.compile(step, fullgraph=True)

    def __call__(self, tokens: Tensor, cache: Cache) -> Tensor:
        counts = cache.grown((1,) * len(tokens))
        cache.reach = rounded_reach(counts, cache.capacity)
        try:
            logits = self.step(tokens)
        finally:
            cache.reach = None
        cache.counts = counts
        return logits
