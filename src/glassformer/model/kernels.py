"""Which attention kernels this machine has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from glassformer.model.sequences import Sequences

# From then on the kernel takes fewer key heads than query heads.
GROUPED = torch.__version__ >= "2.12"
# For full rectangles cuDNN's kernel is the fastest to train with, and torch's last choice.
PREFERRED = [
    SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH,
]  # fmt: skip
HALF = (torch.bfloat16, torch.float16)
# Where our kernel for ragged rows is the faster one, on one H200:
LONG = 1024  # up to this mean length against torch's kernel for them
SHORT, MANY = 128, 8192  # full rectangles up to this length, of at least so many tokens


def fits_varlen(q: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> bool:
    """CUDA in half precision, heads of one even width, no bias, no dropout."""
    D, Dv = q.shape[-1], v.shape[-1]
    fits = q.is_cuda and q.dtype in HALF and Dv == D and D % 8 == 0 and D <= 256
    return fits and bias is None and dropout == 0.0


def many_short(q: Tensor, queries: Sequences) -> bool:
    """So many short texts that the kernel for ragged rows wins even if all are equally long."""
    return q.is_cuda and queries.longest <= SHORT and q.shape[0] >= MANY and fits_spans(q)


def fits_spans(q: Tensor) -> bool:
    """Heads that are not too wide, and Triton."""
    return q.shape[-1] <= 128 and triton_works(q)


def learns_slowly(q: Tensor) -> bool:
    """On a CPU the kernel's way back takes up to ten times longer in half precision."""
    return q.dtype in HALF and q.device.type == "cpu" and q.requires_grad


def ragged(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequences,
    keys: Sequences,
    causal: bool,
    window: int | None,
    scale: float,
    once: Callable[[Any, Callable[[], Any]], Any],
) -> Tensor:
    """Texts of different lengths in one row. `once` keeps what is the same in all layers."""
    before, after = window, 0 if causal else window
    if q.shape[0] < LONG * queries.count and fits_spans(q):
        from glassformer.kernels.span_attention import span_attention

        name = (queries, keys, before, after)
        seen = once(("spans", *name), lambda: spans(q, queries, keys, before, after))
        seen_by = None
        if torch.is_grad_enabled():
            seen_by = once(("seen by", *name), lambda: transposed(seen, k.shape[0]))
        return span_attention(q, k, v, seen, seen_by, scale)
    return _flash(q, k, v, queries, keys, (before, after), scale)


def spans(
    q: Tensor, queries: Sequences, keys: Sequences, before: int | None, after: int | None
) -> Tensor:  # (2, N) int32
    """The first key that each query sees, and the first one behind those. Ends are aligned."""
    texts = queries.texts(q)
    start, end = keys.offsets[texts], keys.offsets[texts + 1]
    row = torch.arange(q.shape[0], device=q.device, dtype=torch.int32)
    own = row + end - queries.offsets[texts + 1]  # the key that stands where the query does
    low = start if before is None else torch.minimum(torch.maximum(own - before, start), end)
    high = end if after is None else torch.minimum(torch.maximum(own + after + 1, start), end)
    return torch.stack([low, high])


def transposed(seen: Tensor, keys: int) -> Tensor:  # (2, N) → (2, M)
    """The span of queries that see each key. Neither bound ever decreases, so it is one span."""
    low, high = seen
    column = torch.arange(keys, device=seen.device, dtype=seen.dtype)
    first = torch.searchsorted(high, column, right=True, out_int32=True)
    return torch.stack([first, torch.searchsorted(low, column, right=True, out_int32=True)])


def triton_works(q: Tensor) -> bool:
    """Triton is there, and so is the C compiler it needs. A compiled model needs both anyway."""
    return torch.compiler.is_compiling() or _try_triton(q.device.index)


@cache
def _try_triton(device: int) -> bool:
    try:
        from glassformer.kernels.span_attention import span_attention

        q = torch.zeros(1, 1, 16, device=f"cuda:{device}", dtype=torch.float16)
        spans = torch.tensor([[0], [1]], device=q.device, dtype=torch.int32)
        span_attention(q, q, q, spans, None, 1.0)
    except Exception:  # whatever is missing, there is another kernel
        return False
    return True


def _flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    queries: Sequences,
    keys: Sequences,
    reach: tuple[int | None, int | None],
    scale: float,
) -> Tensor:
    """Torch's flash kernel for ragged rows."""
    from torch.nn.attention.varlen import varlen_attn  # two seconds that only a GPU has to pay

    window = tuple(-1 if each is None else each for each in reach)
    options: dict[str, Any] = {"scale": scale, "window_size": window}
    if k.shape[1] != q.shape[1]:
        if GROUPED:
            options["enable_gqa"] = True
        else:
            group = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    rows = (queries.offsets, keys.offsets, queries.longest, keys.longest)
    mixed = varlen_attn(q, k, v, *rows, **options)
    assert isinstance(mixed, Tensor)  # noqa: S101 - a tuple only where more is asked for
    return mixed
