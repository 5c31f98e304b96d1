"""Attention: every token asks, every token answers, and each gets a weighted mixture.

q = W_Q x        what I look for
k = W_K x        the title on the spine
v = W_V x        what the book says
weights = softmax(q kᵀ / √D)        mixed = weights v        output = W_O mixed
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from glassformer.config import ModelConfig
from glassformer.model import kernels
from glassformer.model.context import Context, Look
from glassformer.model.norm import Norm
from glassformer.model.position import rotate
from glassformer.model.sequences import Sequences


class Attention(nn.Module):
    """One or many heads; from a text to itself, or (cross) to the source the encoder has read, in
    vectors of `memory_width`."""

    def __init__(self, config: ModelConfig, layer: int, memory_width: int | None = None) -> None:
        super().__init__()
        cross, read = memory_width is not None, memory_width or config.width
        H, G, D, Dv = config.heads, config.group_heads, config.query_width, config.mixed_width
        self.query = nn.Linear(config.width, H * D, bias=config.attention_bias)
        self.key = nn.Linear(read, G * D, bias=config.attention_bias)
        self.value = nn.Linear(read, G * Dv, bias=config.attention_bias)
        self.output = nn.Linear(H * Dv, config.width, bias=bool(config.output_bias))
        normed = {"head": (D, D), "all": (H * D, G * D), None: None}[config.qk_norm]
        self.query_norm = Norm(config, normed[0]) if normed else None
        self.key_norm = Norm(config, normed[1]) if normed else None
        self.heads, self.key_heads, self.layer, self.cross = H, G, layer, cross
        self.scale = 1 / math.sqrt(config.score_width or D) if config.scaled else 1.0
        self.cap, self.dropout = config.score_cap, config.dropout.attention
        place = layer + 1 if config.global_last else layer
        everywhere = cross or (config.global_every > 0 and place % config.global_every == 0)
        self.window = None if everywhere else config.window
        every = config.no_rotary_every
        self.disentangled = config.relative == "disentangled" and not cross
        self.turns = not cross and (every == 0 or (layer + 1) % every > 0)  # between texts, none

    def forward(self, x: Tensor, ctx: Context) -> Tensor:  # (N, C) → (N, C)
        q = self.query(x).unflatten(-1, (self.heads, -1))  # (N, H, D)
        q = ctx.see(self, "q", self._turned(q, self.query_norm, ctx))
        k, v, keys = self._memory(ctx) if self.cross else self._past(x, ctx)
        queries = ctx.cross_queries if self.cross and ctx.cross_queries is not None else ctx.queries
        bias = None if self.cross else ctx.bias
        spec = AttentionSpec(
            causal=ctx.causal and not self.cross,
            window=self.window,
            bias=self._by_distance(q, k, ctx) if self.disentangled else bias,
            scale=self.scale,
            cap=self.cap,
            dropout=self.dropout if self.training else 0.0,
            masks={} if self.disentangled else ctx.masks,
        )
        recorder = (self, ctx) if ctx.opens(self) or self.cap is not None else None
        mixed = attend(q, k, v, queries, keys, spec, recorder)
        mixed = ctx.see(self, "mixed", mixed)  # (N, H, Dv)
        return ctx.see(self, "out", self.output(mixed.flatten(1)))

    def _keys_and_values(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        k = self.key(x).unflatten(-1, (self.key_heads, -1))  # (M, G, D)
        v = self.value(x).unflatten(-1, (self.key_heads, -1))  # (M, G, Dv)
        return ctx.see(self, "k", self._turned(k, self.key_norm, ctx)), ctx.see(self, "v", v)

    def _turned(self, x: Tensor, norm: Norm | None, ctx: Context) -> Tensor:  # (N, H, D)
        """Queries or keys with their norm, if any, turned to their positions."""
        if norm is not None:  # of each head, or of all of them as one vector
            x = norm(x.reshape(x.shape[0], -1, norm.width), ctx).view(x.shape)
        turn = ctx.turn(local=self.window is not None) if self.turns else None
        return x if turn is None else rotate(x, turn)

    def _by_distance(self, q: Tensor, k: Tensor, ctx: Context) -> Tensor:  # (B, H, T, S)
        """q_i · k_d + q_d · k_j, scaled: the same two maps for a vector d of the distance i − j."""
        assert ctx.distances is not None  # noqa: S101 - Stack passes them
        vectors, rows = ctx.distances

        def scores(x: Tensor, project: nn.Linear, row: Tensor) -> Tensor:
            d = project(vectors).unflatten(-1, (self.heads, -1))  # (R, H, D)
            products = torch.einsum("nhd,rhd->nhr", x, d) * self.scale
            products = ctx.queries.pad(products).transpose(1, 2)  # (B, H, T, R)
            return products.gather(-1, row.expand(*products.shape[:2], -1, -1))

        to_position = scores(q, self.key, rows)
        to_content = scores(k, self.query, rows.T).transpose(-1, -2)
        to_position = ctx.see(self, "content_to_position", to_position)
        return to_position + ctx.see(self, "position_to_content", to_content)

    def _past(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Sequences]:
        """This text's own keys and values, after those in the cache."""
        k, v = self._keys_and_values(x, ctx)
        if ctx.cache is not None:
            k, v = ctx.cache.extend(self.layer, k, v, (ctx.texts, ctx.positions), ctx.keys)
        return k, v, ctx.keys

    def _memory(self, ctx: Context) -> tuple[Tensor, Tensor, Sequences]:
        """The source's keys and values: computed once, then read from the cache."""
        assert ctx.memory_keys is not None  # noqa: S101 - Seq2Seq passes them
        if ctx.memory is None:
            assert ctx.cache is not None  # noqa: S101
            return *ctx.cache.recall(self.layer, ctx.memory_keys), ctx.memory_keys
        k, v = self._keys_and_values(ctx.memory, ctx)
        if ctx.cache is not None:
            ctx.cache.remember(self.layer, k, v, ctx.memory_keys)
        return k, v, ctx.memory_keys


# The queries and keys that do not fill their rectangle; of a cache, only the keys may not.
Ragged: TypeAlias = tuple[Sequences | None, Sequences]


@dataclass(frozen=True, eq=False)
class AttentionSpec:
    """Which keys a query may see, and how scores become weights."""

    causal: bool = False  # only keys up to the query's own position
    window: int | None = None  # only keys at most this far away
    bias: Tensor | None = None  # (1 or B, H, T, S) added to the scores
    scale: float = 1.0
    cap: float | None = None  # scores stay between −cap and cap; no kernel knows it
    dropout: float = 0.0
    masks: dict[Any, Tensor | None] = field(default_factory=dict)  # of this call

    def once(self, key: Any, make: Callable[[], Tensor | None]) -> Tensor | None:
        """What `make` returns. The first layer calls it and the others share the result.

        A compiler shares it by itself. With a bias that is learned, each layer makes its own, so
        that activation checkpointing can compute a layer again alone.
        """
        if torch.compiler.is_compiling() or (self.bias is not None and self.bias.requires_grad):
            return make()
        if key not in self.masks:
            self.masks[key] = make()
        return self.masks[key]


def attend(
    q: Tensor,  # (N, H, D)
    k: Tensor,  # (M, G, D), or (B, G, S, D) from a cache
    v: Tensor,  # (M, G, Dv), or (B, G, S, Dv)
    queries: Sequences,
    keys: Sequences,
    spec: AttentionSpec,
    recorder: tuple[nn.Module, Look] | None = None,
) -> Tensor:  # (N, H, Dv)
    """softmax(q kᵀ · scale + bias) v, for each text. The only function that knows kernels.

    Where there are more keys than queries (a cache), their ends are aligned. With a `recorder`
    (a module and where it shows its tensors) the open arithmetic takes the kernel's place; a cap
    needs one, too.
    """
    assert spec.cap is None or recorder is not None  # noqa: S101
    dtype = q.dtype
    if recorder is None and kernels.slow_backward(q):
        bias = None if spec.bias is None else spec.bias.float()
        q, k, v, spec = q.float(), k.float(), v.float(), replace(spec, bias=bias, masks={})
    flat = k.dim() == 3
    even = queries.even(q) and (keys.even(k) if flat else keys.exact)
    ragged_rows = not even or spec.window is not None or kernels.many_short(q, queries)
    if flat and recorder is None and ragged_rows:
        if kernels.fits_varlen(q, v, spec.bias, spec.dropout):
            rules = (spec.causal, spec.window, spec.scale)
            return kernels.ragged(q, k, v, queries, keys, *rules, spec.once)
        if q.device.type == "cpu" and not torch.compiler.is_compiling():
            return _text_by_text(q, k, v, queries, keys, spec).to(dtype)
    if flat:
        k, v = keys.pad(k).transpose(1, 2), keys.pad(v).transpose(1, 2)  # (B, G, S, D)
    elif recorder is None and kernels.fits_cache(q, v, queries, spec.bias, spec.dropout):
        from glassformer.kernels.cached_attention import cached_attention

        mixed: Tensor = cached_attention(q, k, v, keys.offsets, spec.window, spec.scale)
        return mixed
    ragged = None if even else (None if queries.even(q) else queries, keys)
    padded = queries.pad(q).transpose(1, 2)  # (B, H, T, D)
    if recorder is not None:
        seen = visible(padded.shape[2], k.shape[2], ragged, spec, q.device)
        mixed = attend_in_the_open(padded, k, v, seen, spec, *recorder)
    else:
        mixed = scaled_dot_product_attention(padded, k, v, **_options(padded, k, ragged, spec))
    return queries.unpad(mixed.transpose(1, 2), like=q).to(dtype)  # (B, H, T, Dv) → (N, H, Dv)


def _text_by_text(
    q: Tensor, k: Tensor, v: Tensor, queries: Sequences, keys: Sequences, spec: AttentionSpec
) -> Tensor:
    """A CPU has no kernel for ragged texts, and a padded rectangle is mostly padding."""
    rows = []
    texts = (x.split(s.lengths) for x, s in ((q, queries), (k, keys), (v, keys)))
    for i, text in enumerate(zip(*texts, strict=True)):
        one_q, one_k, one_v = (x.transpose(0, 1)[None] for x in text)  # (1, H, T, D)
        bias = spec.bias
        if bias is not None:
            bias = bias[min(i, bias.shape[0] - 1), None, :, : one_q.shape[2], : one_k.shape[2]]
        options = _options(one_q, one_k, None, replace(spec, bias=bias, masks={}))
        mixed = scaled_dot_product_attention(one_q, one_k, one_v, **options)
        rows.append(mixed[0].transpose(0, 1))
    return torch.cat(rows)


def _options(q: Tensor, k: Tensor, ragged: Ragged | None, spec: AttentionSpec) -> dict[str, Any]:
    """What the dense kernel needs beside q, k and v."""
    T, S = q.shape[2], k.shape[2]
    bare = ragged is None and spec.window is None and spec.bias is None
    triangle = bare and T == S and spec.causal  # the kernel knows this mask by itself
    key = (ragged, T, S, spec.causal, spec.window, spec.bias)
    options = {
        "attn_mask": None if triangle else spec.once(key, lambda: _mask(T, S, ragged, spec, q)),
        "is_causal": triangle,
        "scale": spec.scale,
        "dropout_p": spec.dropout,
    }
    if k.shape[1] != q.shape[1]:  # not as a value: to a compiler it may be symbolic
        options["enable_gqa"] = True
    return options


def attend_in_the_open(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    spec: AttentionSpec,
    where: nn.Module,
    ctx: Look,
) -> Tensor:
    """The same arithmetic line by line as on the slide, each step shown to the recorder."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)  # (B, H, S, D)
    scores = q @ k.transpose(-1, -2) * spec.scale  # (B, H, T, S)
    if spec.cap is not None:
        scores = spec.cap * torch.tanh(scores / spec.cap)
    if spec.bias is not None:
        scores = scores + spec.bias
    scores = ctx.see(where, "scores", scores)
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)  # not 0: exp 0 = 1 would still be seen
    weights = ctx.see(where, "weights", scores.softmax(-1))
    if spec.dropout:
        weights = dropout(weights, spec.dropout)
    return weights @ v


def _mask(T: int, S: int, ragged: Ragged | None, spec: AttentionSpec, q: Tensor) -> Tensor | None:
    """What is added to the scores: the bias, and −∞ where a query may not look."""
    seen = visible(T, S, ragged, spec, q.device)
    if seen is None:
        return spec.bias
    bias = torch.zeros((), dtype=q.dtype, device=q.device) if spec.bias is None else spec.bias
    return bias.masked_fill(~seen, -math.inf)


def visible(
    T: int, S: int, ragged: Ragged | None, spec: AttentionSpec, device: torch.device
) -> Tensor | None:  # (1 or B, 1, T, S)
    """Which keys each query may look at; None if all.

    causal, T = S = 4     ■ · · ·      window 1     ■ ■ · ·
                          ■ ■ · ·                   ■ ■ ■ ·
                          ■ ■ ■ ·                   · ■ ■ ■
                          ■ ■ ■ ■                   · · ■ ■
    """
    if ragged is None and spec.window is None and (not spec.causal or T == 1):
        return None
    row = torch.arange(T, device=device)[:, None]
    column = torch.arange(S, device=device)
    rows, columns = (T, S) if ragged is None else (
        T if texts is None else texts.sizes[:, None, None, None] for texts in ragged
    )  # fmt: skip
    seen = column < columns  # (S,) or (B, 1, 1, S)
    back = row + (columns - rows) - column  # how far behind the query the key lies
    if spec.causal and T > 1:
        seen = seen & (back >= 0)
    if spec.window is not None:
        seen = seen & (back.abs() <= spec.window)
    if isinstance(rows, Tensor):  # rows of padding look at key 0: a softmax over nothing is NaN
        seen = seen | ((row >= rows) & (column == 0))
    return seen[None, None] if ragged is None else seen
