"""What is changed in a graph before it is compiled for training; with gradients, on a GPU, in
tests/model/test_cuda_training.py."""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

import pytest
import torch
from torch import Tensor, fx
from torch.nn import functional as F

from glassformer.kernels import compiler, dropout  # noqa: F401 registers an operator
from glassformer.kernels.operators import operator

H, D = 3, 4


def gelu(x: Tensor, bias: Tensor | None, tanh: bool) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh" if tanh else "none")


def attention(
    q: Tensor, k: Tensor, v: Tensor, spans: Tensor, seen_by: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    return q * scale + 2 * k + 3 * v, q.sum()


def joint(
    qkv: Tensor, bias: Tensor | None, spans: Tensor, seen_by: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    return attention(*qkv.unbind(1), spans, seen_by, scale)


def cross_entropy(
    logits: Tensor, labels: Tensor, smoothing: float, classes: int
) -> tuple[Tensor, Tensor]:
    return F.cross_entropy(logits[:, :classes], labels, reduction="none"), logits[:, 0].clone()


def add_norm(
    x: Tensor, bias: Tensor | None, residual: Tensor, weight: Tensor, shift: Tensor | None,
    eps: float, seed: Tensor | None, p: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    branch = x if bias is None else x + bias
    if seed is not None:
        branch = torch.ops.glassformer.dropout(branch, seed, p)
    total = residual + branch
    return total, F.layer_norm(total, weight.shape, weight, shift, eps), total.mean(-1)


STANDINS: dict[str, Callable] = {
    "gelu": gelu,
    "span_attention": attention,
    "joint_attention": joint,
    "cross_entropy": cross_entropy,
    "add_norm": add_norm,
}


@pytest.fixture(scope="module")
def ops():
    """Our operators by plain arithmetic on a CPU, where they have no kernels."""
    with suppress(ImportError):  # without Triton
        for module in ("fused_gelu", "span_attention", "cross_entropy", "add_norm"):
            import_module(f"glassformer.kernels.{module}")
    for name, function in STANDINS.items():
        if hasattr(torch.ops.glassformer, name):
            torch.library.impl(f"glassformer::{name}", "cpu", function)
        else:
            operator(f"glassformer::{name}", function, device="cpu")(function)
    return torch.ops.glassformer


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[fx.GraphModule]:
    """The graphs that reach the compiler."""
    seen: list[fx.GraphModule] = []

    def keep(graph: fx.GraphModule, inputs: list[Tensor]) -> Callable:
        seen.append(graph)
        return graph.forward

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: keep)
    return seen


def check(call: Callable, graphs: list[fx.GraphModule], *inputs: Tensor) -> str:
    """The values stay the same; returns the changed program."""
    with torch.no_grad():
        expected = call(*inputs)
        torch.testing.assert_close(compiler.compile_for_training(call)(*inputs), expected)
    return graphs[-1].code


@pytest.mark.parametrize("bias", [True, False])
def test_the_bias_before_gelu_moves_into_it(ops, graphs, bias: bool) -> None:
    up = torch.nn.Linear(5, 7, bias=bias)
    program = check(lambda x: ops.gelu(up(x), None, False), graphs, torch.randn(6, 5))
    product = next(line for line in program.splitlines() if "nn.linear" in line)
    assert "bias" not in product.split(";")[0]
    assert bias == ("bias" in program.split("glassformer.gelu(")[1].split(")")[0])


@pytest.mark.parametrize("bias", [True, False])
def test_queries_keys_and_values_become_one_product(ops, graphs, bias: bool) -> None:
    maps = [torch.nn.Linear(5, H * D, bias=bias) for _ in range(3)]

    def call(x: Tensor) -> Tensor:
        return ops.span_attention(*(m(x).unflatten(-1, (H, -1)) for m in maps), x, x, 0.5)[0]

    program = check(call, graphs, torch.randn(6, 5))
    assert program.count("nn.linear") == 1
    assert "joint_attention" in program
    assert "span_attention(" not in program


def test_products_that_differ_or_are_read_elsewhere_stay(ops, graphs) -> None:
    q, k, v = (torch.nn.Linear(5, H * D) for _ in range(3))
    heads = (H, -1)

    def two_inputs(x: Tensor) -> Tensor:
        keys = (m(x + 1).unflatten(-1, heads) for m in (k, v))
        return ops.span_attention(q(x).unflatten(-1, heads), *keys, x, x, 0.5)[0]

    def read_twice(x: Tensor) -> Tensor:
        own = q(x)
        keys = (m(x).unflatten(-1, heads) for m in (k, v))
        return ops.span_attention(own.unflatten(-1, heads), *keys, x, x, 0.5)[0] + own.mean()

    def gelu_beside(x: Tensor) -> Tensor:
        product = q(x)
        return ops.gelu(product, None, True) + product

    for call in (two_inputs, read_twice):
        assert check(call, graphs, torch.randn(6, 5)).count("nn.linear") == 3
    assert "gelu(product, None, True)" in check(gelu_beside, graphs, torch.randn(6, 5))


@pytest.mark.parametrize(("classes", "padded"), [(70, True), (128, False)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_vocabulary_is_padded(ops, graphs, classes: int, padded: bool, bias: bool) -> None:
    head, labels = torch.nn.Linear(5, classes, bias=bias), torch.tensor([3, classes - 1])
    call = lambda x: ops.cross_entropy(head(x), labels, 0.0, classes)[0]  # noqa: E731
    program = check(call, graphs, torch.randn(2, 5))
    assert program.count("pad(") == padded * (1 + bias)


@pytest.fixture
def any_size(ops, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of residual connections and norms takes all tensors, as on a GPU large ones."""
    monkeypatch.setattr(compiler, "_has_kernel", lambda total: True)
    monkeypatch.setattr(compiler, "_joint_attention_alone", lambda graph: True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_residual_dropout_and_norm_become_one(any_size, graphs, p: float, bias: bool) -> None:
    down, norm, seed = torch.nn.Linear(5, 5, bias=bias), torch.nn.LayerNorm(5), torch.tensor([7])

    def call(x: Tensor) -> Tensor:
        branch = down(x)
        total = x + (torch.ops.glassformer.dropout(branch, seed.int(), p) if p else branch)
        return F.layer_norm(total, (5,), norm.weight, norm.bias, norm.eps)

    program = check(call, graphs, torch.randn(6, 5))
    assert program.count("add_norm(") == 1
    assert "layer_norm" not in program
    assert "dropout(" not in program
    product = next(line for line in program.splitlines() if "nn.linear" in line)
    assert "bias" not in product.split(";")[0]


def test_other_norms_stay(any_size, graphs) -> None:
    down, norm = torch.nn.Linear(5, 5), torch.nn.LayerNorm(5)
    normed = lambda x: F.layer_norm(x, (5,), norm.weight, norm.bias, norm.eps)  # noqa: E731

    def read_elsewhere(x: Tensor) -> Tensor:
        branch = down(x)
        return normed(x + branch) * branch

    def pre_norm(x: Tensor) -> Tensor:
        total = x + down(x)
        return normed(total) + total

    def broadcast(x: Tensor) -> Tensor:
        return normed(x + down(x[:1]))

    plain = [
        lambda x: normed(x + x.sin()),
        lambda x: normed(x + x),
        lambda x: normed(x + 1.0),
        lambda x: F.layer_norm(x + down(x), (5,)),
        lambda x: F.layer_norm(x + down(x), (5,), eps=1e-3),
        lambda x: F.layer_norm(x + down(x), (5,), None, None, 1e-3),
        lambda x: F.layer_norm(x + down(x), (6, 5), norm.weight.expand(6, 5), None, 1e-3),
    ]
    for call in (normed, *plain, read_elsewhere, pre_norm, broadcast):
        program = check(call, graphs, torch.randn(6, 5))
        assert "add_norm" not in program
        assert "layer_norm(" in program


def test_norms_stay_where_attention_has_several_products(ops, graphs, monkeypatch) -> None:
    """As in a decoder that attends to an encoder."""
    monkeypatch.setattr(compiler, "_has_kernel", lambda total: True)
    maps, down = [torch.nn.Linear(5, H * D) for _ in range(3)], torch.nn.Linear(H * D, 5)
    norm = torch.nn.LayerNorm(5)

    def call(x: Tensor, memory: Tensor) -> Tensor:
        heads = (
            m(y).unflatten(-1, (H, -1)) for m, y in zip(maps, (x, memory, memory), strict=True)
        )
        mixed = ops.span_attention(*heads, x, x, 0.5)[0].flatten(1)
        return F.layer_norm(x + down(mixed), (5,), norm.weight, norm.bias, norm.eps)

    x, memory = torch.randn(2, 6, 5)
    assert "add_norm" not in check(call, graphs, x, memory)
    assert "add_norm(" in check(lambda x: call(x, x), graphs, x)


def test_programs_of_older_kernels_are_not_used(graphs, monkeypatch) -> None:
    tags, own_tag, own = [], compiler._fingerprint(), torch._dynamo.lookup_backend

    def keep(name: str) -> Callable:
        tags.append(torch.compiler.config.cache_key_tag)
        return own(name)

    monkeypatch.setattr(torch._dynamo, "lookup_backend", keep)
    check(lambda x: x + 1, graphs, torch.randn(3))
    monkeypatch.setattr(compiler, "_fingerprint", lambda: "other")
    check(lambda x: x + 2, graphs, torch.randn(3))
    assert {own_tag, "other"} <= set(tags)
    assert torch.compiler.config.cache_key_tag not in (own_tag, "other")
