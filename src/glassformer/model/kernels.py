"""The attention kernels, and which of them this machine has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from glassformer.kernels.spans import spans, triton_works
from glassformer.model.sequences import Sequences

# Since then the kernel accepts fewer key heads than query heads.
GROUPED = torch.__version__ >= "2.12"
# For full rectangles cuDNN's kernel trains fastest, but torch would choose it last.
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


def fits_cache(
    q: Tensor, v: Tensor, queries: Sequences, bias: Tensor | None, dropout: float
) -> bool:
    """One query per text, and no gradient: a step of decoding on a GPU."""
    one = queries.longest == 1 and queries.count == q.shape[0] and not torch.is_grad_enabled()
    return one and fits_varlen(q, v, bias, dropout) and fits_spans(q)


def slow_backward(q: Tensor) -> bool:
    """On a CPU the kernel's backward pass takes up to ten times longer in half precision."""
    return q.dtype in HALF and q.device.type == "cpu" and q.requires_grad


def ragged(
    q: Tensor, k: Tensor, v: Tensor, queries: Sequences, keys: Sequences, causal: bool,
    window: int | None, scale: float, once: Callable[[Any, Callable[[], Any]], Any],
) -> Tensor:  # fmt: skip
    """Texts of different lengths in one row. `once` keeps what is the same in all layers."""
    before, after = window, 0 if causal else window
    # Two long trainings with grouped heads ended in cudaErrorLaunchFailure, after 4,348 and 5,277
    # steps; with torch's kernel they did not. Until the cause is found, they use torch's.
    grouped = k.shape[1] != q.shape[1] and torch.is_grad_enabled()
    if q.shape[0] < LONG * queries.count and fits_spans(q) and not grouped:
        from glassformer.kernels.span_attention import span_attention

        rules = (queries, keys, before, after)
        rows = queries.texts(q), queries.offsets, keys.offsets
        seen = once(("spans", *rules), lambda: spans(*rows, before, after))
        seen_by = None
        if torch.is_grad_enabled():
            columns = keys.texts(k), keys.offsets, queries.offsets
            seen_by = once(("seen by", *rules), lambda: spans(*columns, after, before))
        return span_attention(q, k, v, seen, seen_by, scale)
    return _flash(q, k, v, queries, keys, (before, after), scale)


def _flash(
    q: Tensor, k: Tensor, v: Tensor, queries: Sequences, keys: Sequences,
    reach: tuple[int | None, int | None], scale: float,
) -> Tensor:  # fmt: skip
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
    assert isinstance(mixed, Tensor)  # noqa: S101 - a tuple only with other options
    return mixed
