"""On a GPU: the kernels of compiled training and their gradients are those of float64."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from glassformer.config import DropoutRates, TaskConfig
from glassformer.kernels.compiler import compile_for_training
from glassformer.kernels.gelu import FEWEST
from glassformer.model import AttentionSpec, Batch, Sequences, attend
from glassformer.model.block import ACTIVATIONS
from glassformer.presets import PRESETS
from glassformer.tasks import build_task, cross_entropy

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TEXTS = [7, 0, 130, 1, 64, 0, 33, 3]  # empty ones, one of a single token
SMALL = {"vocab_size": 4100, "width": 64, "depth": 2, "heads": 2, "key_heads": 2, "head_width": 32,
         "value_width": 32, "embedding_width": 64, "mlp_width": 256,
         "dropout": DropoutRates(embedding=0.0, residual=0.0)}  # fmt: skip
LIMITS = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("V", [4096, 5003])
@pytest.mark.parametrize("compiled", [False, True])
def test_cross_entropy(V: int, smoothing: float, compiled: bool) -> None:
    logits = (3 * torch.randn(37, V)).bfloat16().double().requires_grad_()
    labels = torch.randint(V, (37,))
    labels[5] = -100
    right = cross_entropy(logits, labels, smoothing).total
    (right / 7).backward()
    fast = logits.detach().to("cuda", torch.bfloat16).requires_grad_()
    call = torch.compile(cross_entropy, fullgraph=True) if compiled else cross_entropy
    ours = call(fast, labels.cuda(), smoothing)
    (ours.total / 7).backward()
    assert ours.count == 36
    assert abs(ours.total.item() - right.item()) <= 1e-5 * right.item()
    assert (fast.grad.cpu() - logits.grad).norm() <= 5e-3 * logits.grad.norm()
    assert not fast.grad[5].any()


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("p", [0.0, 1e-6, 0.25])
@pytest.mark.parametrize("biased", [False, True], ids=["alone", "biased"])
@pytest.mark.parametrize("reads", ["norm", "total", "both"])
def test_add_norm(reads: str, biased: bool, p: float, dtype: torch.dtype) -> None:
    from glassformer.kernels.add_norm import PROGRAMS, _add_norm

    N, C = 2 * PROGRAMS + 7, 515
    exact = [torch.randn(N, C), 3 * torch.randn(N, C), torch.randn(C), *torch.randn(2, C)]
    exact = [x.to(dtype).double().requires_grad_() for x in exact]
    fast = [x.detach().to("cuda", dtype).requires_grad_() for x in exact]
    grads = [torch.randn(N, C).to(dtype) for _ in range(2)]
    seed = torch.tensor([123456789], dtype=torch.int32)
    x, residual, weight, bias, shift = exact
    branch = x + bias if biased else x
    total = residual + (torch.ops.glassformer.dropout(branch, seed, p) if p else branch)
    right = total, F.layer_norm(total, (C,), weight, shift if biased else None, 1e-5)
    x, residual, weight, bias, shift = fast
    extra = (bias, shift) if biased else (None, None)
    args = (x, extra[0], residual, weight, extra[1], 1e-5, seed.cuda() if p else None, p)
    ours = _add_norm(*args)[:2]
    read = [i for i, name in enumerate(("total", "norm")) if reads in (name, "both")]
    torch.autograd.backward([right[i] for i in read], [grads[i].double() for i in read])
    torch.autograd.backward([ours[i] for i in read], [grads[i].cuda() for i in read])
    pairs = [
        *zip(right, ours, strict=True),
        *((a.grad, b.grad) for a, b in zip(exact, fast, strict=True)),
    ]
    for a, b in pairs:
        if a is not None and a.norm():
            error = (b.detach().cpu().double() - a.detach()).norm()
            assert error <= LIMITS[dtype] * a.norm()
    torch.library.opcheck(_add_norm, args)


@pytest.mark.parametrize("again", [False, True], ids=["once", "recomputed"])
@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh"])
def test_compiled_gelu(kind: str, again: bool) -> None:
    exact = (3 * torch.randn(FEWEST, 512)).bfloat16().double().requires_grad_()
    fast = exact.detach().to("cuda", torch.bfloat16).requires_grad_()

    def call(x: torch.Tensor) -> torch.Tensor:
        function = ACTIVATIONS[kind]
        return checkpoint(function, x, use_reentrant=False) if again else function(x)

    results = []
    for x, function in ((exact, call), (fast, torch.compile(call, fullgraph=True))):
        y = function(x)
        y.square().sum().backward()
        results.append([y.detach().cpu().double(), x.grad.cpu().double()])
    for right, ours in zip(*results, strict=True):
        assert (ours - right).norm() <= 1e-2 * right.norm()


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("tanh", [False, True], ids=["exact", "tanh"])
@pytest.mark.parametrize("biased", [False, True], ids=["alone", "biased"])
def test_fused_gelu(biased: bool, tanh: bool, dtype: torch.dtype) -> None:
    from glassformer.kernels.fused_gelu import _gelu

    exact = [(4 * torch.randn(1037, 515)).to(dtype), torch.randn(515).to(dtype)]
    exact = [x.double().requires_grad_() for x in exact]
    fast = [x.detach().to("cuda", dtype).requires_grad_() for x in exact]
    grad = torch.randn(1037, 515, dtype=torch.float64).to(dtype)
    x, bias = exact
    right = F.gelu(x + bias if biased else x, approximate="tanh" if tanh else "none")
    right.backward(grad.double())
    ours = _gelu(fast[0], fast[1] if biased else None, tanh)
    ours.backward(grad.cuda())
    pairs = [(right, ours), *((a.grad, b.grad) for a, b in list(zip(exact, fast, strict=True)))]
    for a, b in pairs[: 3 if biased else 2]:
        assert (b.detach().cpu().double() - a.detach()).norm() <= LIMITS[dtype] / 2 * a.norm()
    torch.library.opcheck(_gelu, (fast[0], fast[1] if biased else None, tanh))


@pytest.fixture
def operations(monkeypatch) -> Counter[str]:
    """The names of all operations that reach torch's compiler."""
    names: Counter[str] = Counter()
    inductor = torch._dynamo.lookup_backend("inductor")

    def spy(graph, inputs):
        names.update(str(node.target).split(".default")[0] for node in graph.graph.nodes)
        return inductor(graph, inputs)

    monkeypatch.setattr(torch._dynamo, "lookup_backend", lambda name: spy)
    return names


@pytest.mark.parametrize("place", ["post", "pre"])
def test_compiled_blocks_and_their_head(place: str, operations) -> None:
    """Two blocks and the loss: every gradient is that of float64."""
    config = PRESETS["gpt2"].model.model_copy(update=SMALL | {"norm_place": place})
    task = build_task(config, TaskConfig(kind="causal_lm", bias=False)).train()
    for name, weight in task.named_parameters():  # hot, so that attention is not even
        mean, std = (1.0, 0.3) if "norm" in name else (0.0, weight.shape[-1] ** -0.5)
        torch.nn.init.normal_(weight, mean, std)
    fast = deepcopy(task).to("cuda", torch.float16)
    exact = deepcopy(fast).to("cpu", torch.float64)
    tokens = torch.randint(config.vocab_size, (FEWEST + 64,))
    labels = torch.randint(config.vocab_size, (FEWEST + 64,))
    totals = []
    for device, call in (("cpu", exact), ("cuda", compile_for_training(fast))):
        texts = Sequences.of([48, 80] * (len(tokens) // 128) + [64], device=device)
        batch = Batch(tokens.to(device), texts, labels=labels.to(device))
        totals.append(call(batch).losses["labels"].total)
        totals[-1].backward()
    assert operations["glassformer.add_norm"] == (4 if place == "post" else 1)  # the last norm
    assert abs(totals[1].item() - totals[0].item()) <= 1e-3 * totals[0].item()
    for (name, a), b in zip(exact.named_parameters(), fast.parameters(), strict=True):
        error = (b.grad.cpu().double() - a.grad).norm()
        assert error <= 2e-2 * a.grad.norm() + 0.1, name  # most are between 10 and 1000


@pytest.mark.parametrize("bias", [False, True], ids=["without biases", "with biases"])
@pytest.mark.parametrize("rules", [(False, None), (True, None), (True, 5)], ids=str)
def test_compiled_for_training_products_are_joined(rules, bias: bool, operations) -> None:
    """A block of attention and GELU: the gradients of its input, weights and biases."""
    H, D, dtype = 3, 16, torch.float16
    texts = TEXTS * 5  # more rows than a block has
    exact = [torch.randn(sum(texts), 40), *(torch.randn(H * D, 40) / 6 for _ in range(3))]
    exact += [torch.randn(64, H * D) / 6, *(torch.randn(H * D) for _ in range(3)), torch.randn(64)]
    exact = [x.to(dtype).double().requires_grad_() for x in exact]
    fast = [x.detach().to("cuda", dtype).requires_grad_() for x in exact]
    how = AttentionSpec(causal=rules[0], window=rules[1], scale=D**-0.5)

    def call(x, q, k, v, up, *biases, sequences):
        biases = biases if bias else (None,) * 4
        maps = zip((q, k, v), biases[:3], strict=True)
        heads = [F.linear(x, w, b).unflatten(-1, (H, -1)) for w, b in maps]
        mixed = attend(*heads, sequences, sequences, replace(how, masks={}))
        return ACTIVATIONS["gelu"](F.linear(mixed.flatten(1), up, biases[3]))

    results = []
    for tensors, device, function in (
        (exact, "cpu", call),
        (fast, "cuda", compile_for_training(call)),
    ):
        y = function(*tensors, sequences=Sequences.of(texts, device=device))
        y.square().sum().backward()
        results.append([y.detach(), *(x.grad for x in tensors if x.grad is not None)])
    assert {"glassformer.joint_attention", "glassformer.gelu"} <= operations.keys()
    assert "glassformer.span_attention" not in operations
    assert len(results[0]) == (10 if bias else 6)
    for i, (right, ours) in enumerate(zip(*results, strict=True)):
        # The key's bias changes all scores of a query alike: its gradient is rounding only.
        size = results[0][6].norm() if i == 7 else right.norm()
        assert (ours.cpu().double() - right).norm() <= 5e-3 * size, i
