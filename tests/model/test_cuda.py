"""On a GPU: every way to attend gives what float64 on the CPU gives."""

from dataclasses import replace

import pytest
import torch

from glassformer.kernels.spans import spans
from glassformer.model import AttentionSpec, Sequences, attend

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
if torch.cuda.is_available():
    from glassformer.kernels import cached_attention

RAGGED, OTHER, EVEN = [7, 130, 1, 64, 33], [5, 17, 200, 3, 9], [32] * 4
PROBLEMS = {  # heads, key heads, width, causal, window, queries, keys
    "plain": (4, 4, 64, False, None, RAGGED, RAGGED),
    "causal": (4, 4, 64, True, None, RAGGED, RAGGED),
    "causal window": (4, 4, 64, True, 16, RAGGED, RAGGED),
    "window": (4, 4, 64, False, 16, RAGGED, RAGGED),
    "grouped": (6, 2, 32, True, None, RAGGED, RAGGED),
    "cross": (4, 4, 64, False, None, RAGGED, OTHER),
    "even": (4, 4, 64, True, None, EVEN, EVEN),
    "even window": (4, 4, 64, False, 8, EVEN, EVEN),
    "odd width": (3, 3, 20, True, None, RAGGED, RAGGED),
    "many": (5, 1, 64, True, None, RAGGED * 40, RAGGED * 40),  # more blocks than processors
}
LIMITS = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}


def bounds_of(q, k, queries, keys, before, after):
    """The keys that each query sees, and the queries that see each key."""
    rows = queries.texts(q), queries.offsets, keys.offsets
    columns = keys.texts(k), keys.offsets, queries.offsets
    return spans(*rows, before, after), spans(*columns, after, before)


@pytest.mark.filterwarnings("ignore:TensorFloat32")  # float32 is to be exact here
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_attend_and_its_gradients(name: str, dtype: torch.dtype, compiled: bool) -> None:
    H, G, D, causal, window, queries, keys = PROBLEMS[name]
    how = AttentionSpec(causal=causal, window=window, scale=D**-0.5)
    sizes = ((sum(queries), H), (sum(keys), G), (sum(keys), G))
    exact = [torch.randn(n, h, D, dtype=torch.float64, requires_grad=True) for n, h in sizes]
    fast = [x.detach().to("cuda", dtype).requires_grad_() for x in exact]
    results = []
    torch.compiler.reset()
    fast_attend = torch.compile(attend, fullgraph=True, dynamic=False) if compiled else attend
    for qkv, device, call in ((exact, "cpu", attend), (fast, "cuda", fast_attend)):
        texts = (Sequences.of(queries, device=device), Sequences.of(keys, device=device))
        mixed = call(*qkv, *texts, replace(how, masks={}))
        mixed.square().sum().backward()
        results.append([t.detach().cpu().double() for t in (mixed, *(x.grad for x in qkv))])
    for right, ours in zip(*results, strict=True):
        assert (ours - right).norm() <= LIMITS[dtype] * right.norm()


TEXTS = [7, 0, 130, 1, 64, 0, 33, 3]  # empty ones, one of a single token
LONGER = [9, 2, 130, 4, 100, 0, 33, 5]  # as behind a cache: the ends are aligned
OTHERS = [5, 4, 17, 200, 0, 0, 9, 64]  # one has queries, but no keys: zeros


def row(count: int, heads: int, D: int) -> torch.Tensor:
    return torch.randn(count, heads, D, dtype=torch.float64, requires_grad=True)


def exact_and_fast(H, G, D, causal, window, keys, dtype, texts=TEXTS):
    """Values and gradients in float64 on the CPU, and from the kernel for `texts`."""
    from glassformer.kernels.span_attention import span_attention

    exact = [row(sum(TEXTS), H, D), row(sum(keys), G, D), row(sum(keys), G, D)]
    fast = [x.detach().to("cuda", dtype).requires_grad_() for x in exact]
    exact = [x.detach().to(dtype).double().requires_grad_() for x in exact]
    how = AttentionSpec(causal=causal, window=window, scale=D**-0.5)
    right = attend(*exact, Sequences.of(TEXTS), Sequences.of(keys), how)
    sequences = [Sequences.of(lengths, device="cuda") for lengths in (texts, keys)]
    bounds = bounds_of(*fast[:2], *sequences, window, 0 if causal else window)
    ours = span_attention(*fast, *bounds, how.scale)
    grad = torch.randn_like(right)
    right.backward(grad)
    ours.backward(grad.to("cuda", dtype))
    return [
        [t.detach().cpu().double() for t in (mixed, *(x.grad for x in qkv))]
        for mixed, qkv in ((right, exact), (ours, fast))
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("D", [8, 24, 64, 128])
@pytest.mark.parametrize("heads", [(3, 3), (6, 2)], ids=["alone", "grouped"])
def test_span_attention(heads: tuple[int, int], D: int, dtype: torch.dtype) -> None:
    rules = [(c, w, TEXTS) for c in (False, True) for w in (None, 1, 5, 70)]
    rules += [(True, None, LONGER), (True, 5, LONGER), (False, None, OTHERS)]
    for causal, window, keys in rules:
        pairs = zip(*exact_and_fast(*heads, D, causal, window, keys, dtype), strict=True)
        for right, ours in pairs:
            assert (ours - right).norm() <= LIMITS[dtype] * right.norm(), (causal, window)


def test_a_wrong_span_would_be_seen() -> None:
    moved = [8, 0, 129, 1, 64, 0, 33, 3]
    pairs = zip(*exact_and_fast(3, 3, 64, False, None, TEXTS, torch.float16, moved), strict=True)
    for right, ours in pairs:
        assert (ours - right).norm() > 10 * LIMITS[torch.float16] * right.norm()


def kernels_of(call):
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds, acc_events=True) as profile:
        call()
        torch.cuda.synchronize()
    return {event.key for event in profile.key_averages()}


def test_many_short_texts_of_one_length_take_it_too() -> None:
    q = torch.randn(256 * 32, 2, 64, device="cuda", dtype=torch.float16)
    texts, how = Sequences.of([32] * 256, device="cuda"), AttentionSpec(causal=True, scale=0.125)
    assert "_forward" in kernels_of(lambda: attend(q, q, q, texts, texts, how))
    right = attend(*[q.cpu().double()] * 3, texts.to("cpu"), texts.to("cpu"), how)
    assert (attend(q, q, q, texts, texts, how).cpu() - right).norm() <= 2e-3 * right.norm()


@pytest.mark.parametrize("way", ["eager", "compiled", "captured"])
def test_attend_takes_the_span_kernel_and_repeats_its_bits(way: str) -> None:
    texts, how = (
        Sequences.of(TEXTS, device="cuda"),
        AttentionSpec(causal=True, window=40, scale=0.125),
    )
    call = torch.compile(attend, fullgraph=True) if way == "compiled" else attend
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # what is captured must not touch the default one
        q, k, v = (
            torch.randn(sum(TEXTS), 4, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )

        def learn() -> list[torch.Tensor]:
            mixed = call(q, k, v, texts, texts, replace(how, masks={}))
            return [mixed, *torch.autograd.grad(mixed, (q, k, v), torch.ones_like(mixed))]

        first = [x.clone() for x in learn()]
        if way == "captured":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                again = learn()
            graph.replay()
        else:
            again = learn()
            names = kernels_of(learn)
            assert {"_forward", "_backward_queries", "_backward_keys"} <= names
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


CACHES = {  # heads, key heads, width, window
    "plain": (12, 12, 64, None),
    "grouped": (9, 3, 64, None),
    "one key head": (20, 1, 128, None),
    "window": (4, 4, 64, 16),
    "odd width": (3, 3, 24, None),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CACHES)
@torch.no_grad()
def test_a_step_of_decoding(name: str, dtype: torch.dtype, monkeypatch) -> None:
    H, G, D, window = CACHES[name]
    lengths, room = [1, 70, 33, 200, 64], 200
    B = len(lengths)
    how = AttentionSpec(causal=True, window=window, scale=D**-0.5)
    q, k, v = torch.randn(B, H, D), torch.randn(B, G, room, D), torch.randn(B, G, room, D)
    q, k, v = (x.to(dtype).double() for x in (q, k, v))
    right = attend(q, k, v, Sequences.of([1] * B), Sequences.of(lengths), how)
    fast = [x.to("cuda", dtype) for x in (q, k, v)]
    calls = []
    kernel = cached_attention.cached_attention
    monkeypatch.setattr(
        cached_attention, "cached_attention", lambda *args: calls.append(1) or kernel(*args)
    )
    ones, texts = (Sequences.of(each, device="cuda") for each in ([1] * B, lengths))
    ours = attend(*fast, ones, texts, replace(how, masks={})).cpu().double()
    assert calls  # not torch's kernel
    assert (ours - right).norm() <= LIMITS[dtype] * right.norm()
    fewer = Sequences.of([max(1, n // 2) for n in lengths], device="cuda")
    wrong = attend(*fast, ones, fewer, replace(how, masks={})).cpu().double()
    assert (wrong - right).norm() > 5 * LIMITS[dtype] * right.norm()


def test_the_operator_is_registered_as_torch_wants_it() -> None:
    from glassformer.kernels.span_attention import _attention

    q, k, v = (
        torch.randn(sum(TEXTS), 2, 16, device="cuda", dtype=torch.float16, requires_grad=True)
        for _ in range(3)
    )
    texts = Sequences.of(TEXTS, device="cuda")
    torch.library.opcheck(_attention, (q, k, v, *bounds_of(q, k, texts, texts, None, None), 0.25))
