"""Compiled decoding steps: the small operations between the products become one program.

A step of a small model has some hundred products and thousands of small operations, each of which
Python starts separately on a CPU; on a GPU each of them reads and writes memory. Torch keeps the
compiled programs on disk.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.generate.cuda_graphs import Step, rounded_reach
from glassformer.kernels import native
from glassformer.kernels.compiler import Program, compile_changed
from glassformer.model import Cache

# All engines of a process compile the same function: torch's limits are for one.
LIMITS = {"recompile_limit": 1000, "accumulated_recompile_limit": 1000}
LAST_CALL = threading.local()


class CompiledSteps:
    """For a CPU: compiled at the first step, and once more when attention first reads further.

    The compiler checks at every call whether its program still fits, a millisecond for a hundred
    weights. Those of an engine stay where they are, so a program is kept together with its inputs,
    and the next steps call it directly.
    """

    def __init__(self, step: Step) -> None:
        if native.compiler((*native.COMPILERS, "cl")) is None:
            raise InputError(
                "compiled = True: there is no C++ compiler: install g++, or leave it out"
            )
        self.step = torch.compile(step, fullgraph=True, backend=_recorded)
        self.programs: dict[tuple[int, ...], Step] = {}

    def __call__(self, tokens: Tensor, cache: Cache) -> Tensor:
        counts = cache.grown((1,) * len(tokens))
        cache.reach = rounded_reach(counts, cache.capacity)
        places = (each[0].data_ptr() for each in (cache.keys, cache.memory_keys))
        key = (len(tokens), cache.reach, *places)
        try:
            if key in self.programs:
                logits = self.programs[key](tokens)
            else:
                logits, self.programs[key] = self._first(tokens)
        finally:
            cache.reach = None
        cache.counts = counts
        return logits

    def _first(self, tokens: Tensor) -> tuple[Tensor, Step]:
        with torch._dynamo.config.patch(LIMITS):
            logits = self.step(tokens)
        program, inputs, outputs = vars(LAST_CALL).pop("record")
        i = next(i for i, each in enumerate(inputs) if each is tokens)
        o = next(o for o, each in enumerate(outputs) if each is logits)
        before, after = inputs[:i], inputs[i + 1 :]
        return logits, lambda tokens: program(*before, tokens, *after)[o]


def _recorded(graph: fx.GraphModule, inputs: list[Tensor]) -> Program:
    """A compiler whose program leaves its inputs and outputs in LAST_CALL."""
    for node in graph.graph.nodes:
        if node.target is F.scaled_dot_product_attention:
            node.target = attend_with_few_queries
        elif node.target is F.linear and _is_faster(node):
            node.target = linear
    # Its checks of the shapes of every input take another millisecond, and so does Python, which
    # would start every loop.
    settings = {"size_asserts": False, "alignment_asserts": False, "cpp_wrapper": native.works()}
    with torch._inductor.config.patch(settings):
        program = compile_changed(graph, inputs)

    def run(*inputs: Tensor) -> Sequence[Tensor]:
        outputs = program(*inputs)
        LAST_CALL.record = program, inputs, outputs
        return outputs

    return run


def _is_faster(product: fx.Node) -> bool:
    """Whether our products in float32 are faster than torch's for it."""
    nodes = (*product.all_input_nodes[:2], product)
    x, weight, y = every = [node.meta["example_value"] for node in nodes]
    plain = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in every)
    return plain and weight.is_contiguous() and x.dim() == 2 and native.faster_than_torch(len(y))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return native.float_linear()(x.contiguous(), weight, bias)


def attend_with_few_queries(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, scale: float,
    enable_gqa: bool = False, **_: Any,
) -> Tensor:  # (B, H, n, D), (B, Hk, S, D), (B, Hk, S, Dv) → (B, H, n, Dv)  # fmt: skip
    """Like torch's kernel, which takes longer to begin than a few queries take."""
    if enable_gqa:
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (q[:, :, :, None] * k[:, :, None]).sum(-1) * scale
    if attn_mask is not None:
        scores = scores + attn_mask
    return (scores.softmax(-1)[..., None] * v[:, :, None]).sum(-2)


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


def _row_products(graph: fx.GraphModule, inputs: list[Tensor]) -> Program:
    """A compiler that writes the product of a matrix and a single row as a sum over its columns.

    Its loops then fuse with the operations after them; the library's products do not.
    """
    for node in graph.graph.nodes:
        if node.target is F.linear and node.meta["example_value"].shape[0] == 1:
            node.target = _row_product
    return compile_changed(graph, inputs)


def _row_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y = (weight.float() * _stored(x).float()).sum(-1)[None]
    return _stored((y if bias is None else y + bias.float()).to(x.dtype))


def _stored(x: Tensor) -> Tensor:
    """The same tensor, which the compiler then writes to memory: otherwise it would compute an
    activation again for every number that is computed from it."""
    return x.as_strided(x.shape, x.stride())
