"""How models are compiled for training.

Torch's compiler takes our kernels as they are. Before it does, their inputs are changed:

    GELU(x Wᵀ + b)                    the bias is added by the kernel of GELU
    attention(x Wqᵀ, x Wkᵀ, x Wvᵀ)    one product makes queries, keys and values
    cross-entropy(x Wᵀ + b)           the vocabulary is padded to a size that products are fast for
    norm(r + dropout(x Wᵀ + b))       one kernel after the product, if nothing else reads the sum

In the backward pass, our kernels also sum up the gradients of the biases, and the gradient of the x
of attention is one product instead of the sum of three. Blocks whose activations are computed again
(`activation_checkpointing`) are compiled as they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import torch
from torch import Tensor, fx
from torch.compiler import config
from torch.nn import functional as F

from glassformer.kernels.gelu import is_large

P = ParamSpec("P")
Result = TypeVar("Result")
Program: TypeAlias = Callable[..., Sequence[Tensor]]
Args: TypeAlias = tuple[Any, ...]  # of a node: other nodes, numbers, None

ALIGNED = 64  # sizes that are a multiple of this have fast products
WIDEST = 1024  # vectors for which the kernel of sums and norms has enough registers


def compile_for_training(function: Callable[P, Result]) -> Callable[P, Result]:
    """Compile a function of static shapes as a whole."""
    return torch.compile(function, fullgraph=True, dynamic=False, backend=_training)


def _training(graph: fx.GraphModule, inputs: list[Tensor]) -> Program:
    nodes = list(graph.graph.nodes)
    for node in nodes:
        name = str(node.target)
        if name.startswith("glassformer.gelu"):
            _move_bias(node)
        elif name.startswith("glassformer.span_attention"):
            _join_products(node)
        elif name.startswith("glassformer.cross_entropy"):
            _pad_vocabulary(node)
    if _joint_attention_alone(graph.graph):
        for norm in nodes:
            if norm.target is F.layer_norm:
                _join_residual(norm)
    return compile_changed(graph, inputs)


def compile_changed(graph: fx.GraphModule, inputs: list[Tensor]) -> Program:
    """Torch's own compiler, for a graph whose nodes have been changed."""
    graph.recompile()
    # The cache on disk knows an operator only by its name: it would return programs of old kernels.
    tag = config.cache_key_tag + _fingerprint()
    with config.patch(cache_key_tag=tag):  # type: ignore[attr-defined]
        program: Program = torch._dynamo.lookup_backend("inductor")(graph, inputs)
    return program


@cache
def _fingerprint() -> str:
    """Of the files of our kernels."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _move_bias(gelu: fx.Node) -> None:
    args: Args = gelu.args
    product, _, tanh = args
    if _is_product(product):
        x, weight, bias = product.args
        product.args, gelu.args = (x, weight), (product, bias, tanh)


def _join_products(attention: fx.Node) -> None:
    args: Args = attention.args
    *heads, spans, seen_by, scale = args
    products = [each.args[0] for each in heads if _is(each, "unflatten")]
    if len(products) < 3 or not all(map(_is_product, products)):
        return
    inputs, weights, biases = zip(*(product.args for product in products), strict=True)
    shapes = {each.meta["example_value"].shape for each in heads}
    if len(set(inputs)) > 1 or len(shapes) > 1 or len({bias is None for bias in biases}) > 1:
        return
    graph, (_, H, D) = attention.graph, shapes.pop()
    with graph.inserting_before(attention):
        weight = graph.call_function(torch.cat, (weights,))
        bias = None if biases[0] is None else graph.call_function(torch.cat, (biases,))
        # The attention computes the gradient of the bias, so the product does not.
        fixed = None if bias is None else graph.call_method("detach", (bias,))
        qkv = graph.call_function(F.linear, (inputs[0], weight, fixed))
        qkv = graph.call_method("unflatten", (qkv, -1, (3, H, D)))
    attention.target = torch.ops.glassformer.joint_attention
    attention.args = (qkv, bias, spans, seen_by, scale)
    for node in dict.fromkeys((*heads, *products)):
        graph.erase_node(node)


def _pad_vocabulary(cross_entropy: fx.Node) -> None:
    args: Args = cross_entropy.args
    logits, *_, classes = args
    missing = -classes % ALIGNED
    if not missing or not _is_product(logits):
        return
    x, weight, bias = logits.args
    graph = cross_entropy.graph
    with graph.inserting_before(logits):
        weight = graph.call_function(F.pad, (weight, (0, 0, 0, missing)))
        bias = None if bias is None else graph.call_function(F.pad, (bias, (0, missing)))
    logits.args = (x, weight, bias)


def _joint_attention_alone(graph: fx.Graph) -> bool:
    """Whether all attention has joint products, as in encoders of short texts.

    Elsewhere joined residuals gain nothing: 0.3 % in GPT-2, and an encoder-decoder was not faster.
    Torch 2.11 also logs every operator that it has no lowering for, with its inputs and, in turn,
    their inputs: in GPT-2 this text doubles with every residual connection, without end.
    """
    names = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    attention = [name for name in names if "attention" in name or "attn" in name]
    return bool(attention) and all("joint_attention" in name for name in attention)


def _join_residual(norm: fx.Node) -> None:
    args: Args = norm.args
    if len(args) != 5 or args[2] is None:
        return
    total, shape, weight, shift, eps = args
    added = total.target is operator.add and len(total.users) == 1 and len(shape) == 1
    if not added or not _has_kernel(norm.meta["example_value"]):
        return
    values = [each.meta["example_value"] for each in (*total.all_input_nodes, norm)]
    if len(values) < 3 or len({(value.shape, value.dtype) for value in values}) > 1:
        return
    residual, branch = total.args
    dropped = str(branch.target).startswith("glassformer.dropout") and len(branch.users) == 1
    x, seed, p = branch.args if dropped else (branch, None, 0.0)
    bias = None
    if _is_product(x):
        x.args, bias = x.args[:2], x.args[2]
    elif not dropped:
        return
    graph = norm.graph
    with graph.inserting_before(norm):
        outputs = graph.call_function(
            torch.ops.glassformer.add_norm, (x, bias, residual, weight, shift, eps, seed, p)
        )
        y = graph.call_function(operator.getitem, (outputs, 1))
    norm.replace_all_uses_with(y, propagate_meta=True)
    for node in (norm, total, *((branch,) if dropped else ())):
        graph.erase_node(node)


def _has_kernel(total: Tensor) -> bool:
    """Whether our kernel of residual connections and norms takes it."""
    if not is_large(total) or total.shape[1] > WIDEST:
        return False
    import glassformer.kernels.add_norm  # noqa: F401

    return True


def _is_product(node: Any) -> bool:
    """Whether it is x Wᵀ + b, and only one operation reads it."""
    linear = isinstance(node, fx.Node) and node.target is F.linear and len(node.args) == 3
    return linear and len(node.users) == 1


def _is(node: fx.Node, method: str) -> bool:
    return node.op == "call_method" and node.target == method and len(node.users) == 1
