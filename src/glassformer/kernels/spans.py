"""The span of keys that each query sees; and whether Triton can be used."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def spans(
    texts: Tensor, queries: Tensor, keys: Tensor, before: int | None, after: int | None
) -> Tensor:  # (2, N) int32
    """The first key that each query sees, and the first one after those.

    `texts` is each query's text, `queries` and `keys` the offsets of the texts. With more keys than
    queries, as after a cache, the ends are aligned. With queries and keys exchanged, and `before`
    and `after`, it returns the queries that see each key.
    """
    start, end = keys[texts], keys[texts + 1]
    row = torch.arange(len(texts), device=texts.device, dtype=torch.int32)
    own = row + end - queries[texts + 1]  # the key at the query's own position
    low = start if before is None else torch.minimum(torch.maximum(own - before, start), end)
    high = end if after is None else torch.minimum(torch.maximum(own + after + 1, start), end)
    return torch.stack([low, high])


def triton_works(q: Tensor) -> bool:
    """Whether Triton and the C compiler it needs are there; a compiled model has them anyway."""
    return torch.compiler.is_compiling() or _try_triton(q.device.index)


@cache
def _try_triton(device: int) -> bool:
    try:
        from glassformer.kernels.span_attention import span_attention

        q = torch.zeros(1, 1, 16, device=f"cuda:{device}", dtype=torch.float16)
        one = torch.tensor([[0], [1]], device=q.device, dtype=torch.int32)
        span_attention(q, q, q, one, None, 1.0)
    except Exception:  # whatever is missing, there is another kernel
        return False
    return True
