"""On a GPU: every way to attend gives what float64 on the CPU gives."""

import pytest
import torch

from glassformer.model import AttentionSpec, Sequences, attend

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

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
}
LIMITS = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_attend_and_its_gradients(name: str, dtype: torch.dtype) -> None:
    H, G, D, causal, window, queries, keys = PROBLEMS[name]
    how = AttentionSpec(causal=causal, window=window, scale=D**-0.5)
    sizes = ((sum(queries), H), (sum(keys), G), (sum(keys), G))
    exact = [torch.randn(n, h, D, dtype=torch.float64, requires_grad=True) for n, h in sizes]
    fast = [x.detach().to("cuda", dtype).requires_grad_() for x in exact]
    results = []
    for qkv, device in ((exact, "cpu"), (fast, "cuda")):
        texts = (Sequences.of(queries, device=device), Sequences.of(keys, device=device))
        mixed = attend(*qkv, *texts, how)
        mixed.square().sum().backward()
        results.append([t.detach().cpu().double() for t in (mixed, *(x.grad for x in qkv))])
    for right, ours in zip(*results, strict=True):
        assert (ours - right).norm() <= LIMITS[dtype] * right.norm()
