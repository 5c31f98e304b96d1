"""Attention: every token asks, every token answers, and each takes home a weighted mixture.

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
from torch.nn.functional import scaled_dot_product_attention

from glassformer.config import ModelConfig
from glassformer.model import kernels
from glassformer.model.context import Context, Look
from glassformer.model.position import rotate
from glassformer.model.sequences import Sequences


class Attention(nn.Module):
    """One or many heads; from a text to itself, or (cross) to the text the encoder read."""

    def __init__(self, config: ModelConfig, *, layer: int, cross: bool = False) -> None:
        super().__init__()
        H, G, D, Dv = config.heads, config.group_heads, config.query_width, config.mixed_width
        self.query = nn.Linear(config.width, H * D, bias=config.attention_bias)
        self.key = nn.Linear(config.width, G * D, bias=config.attention_bias)
        self.value = nn.Linear(config.width, G * Dv, bias=config.attention_bias)
        self.output = nn.Linear(H * Dv, config.width, bias=bool(config.output_bias))
        self.heads, self.key_heads, self.layer, self.cross = H, G, layer, cross
        self.scale = 1 / math.sqrt(D) if config.scaled else 1.0
        self.dropout = config.dropout.attention
        everywhere = cross or (config.global_every > 0 and layer % config.global_every == 0)
        self.window = None if everywhere else config.window

    def forward(self, x: Tensor, ctx: Context) -> Tensor:  # (N, C) → (N, C)
        q = self.query(x).unflatten(-1, (self.heads, -1))  # (N, H, D)
        turn = ctx.turn(cross=self.cross, local=self.window is not None)
        if turn is not None:
            q = rotate(q, turn)
        q = ctx.see(self, "q", q)
        k, v, keys = self._memory(ctx) if self.cross else self._past(x, ctx)
        queries = ctx.asking if self.cross and ctx.asking is not None else ctx.queries
        how = How(
            causal=ctx.causal and not self.cross,
            window=self.window,
            bias=None if self.cross else ctx.bias,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
            masks=ctx.masks,
        )
        looking = (self, ctx) if ctx.opens(self) else None
        mixed = attend(q, k, v, queries, keys, how, looking)
        mixed = ctx.see(self, "mixed", mixed)  # (N, H, Dv)
        return ctx.see(self, "out", self.output(mixed.flatten(1)))

    def _keys_and_values(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        k = self.key(x).unflatten(-1, (self.key_heads, -1))  # (M, G, D)
        v = self.value(x).unflatten(-1, (self.key_heads, -1))  # (M, G, Dv)
        turn = ctx.turn(cross=self.cross, local=self.window is not None)
        if turn is not None:
            k = rotate(k, turn)
        return ctx.see(self, "k", k), ctx.see(self, "v", v)

    def _past(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Sequences]:
        """This text's own keys and values, behind those the cache remembers."""
        k, v = self._keys_and_values(x, ctx)
        if ctx.cache is not None:
            k, v = ctx.cache.extend(self.layer, k, v, (ctx.texts, ctx.positions), ctx.keys)
        return k, v, ctx.keys

    def _memory(self, ctx: Context) -> tuple[Tensor, Tensor, Sequences]:
        """The other text's keys and values: made once, then recalled from the cache."""
        assert ctx.memory_keys is not None  # noqa: S101 - Seq2Seq sees to it
        if ctx.memory is None:
            assert ctx.cache is not None  # noqa: S101
            return *ctx.cache.recall(self.layer, ctx.memory_keys), ctx.memory_keys
        k, v = self._keys_and_values(ctx.memory, ctx)
        if ctx.cache is not None:
            ctx.cache.remember(self.layer, k, v, ctx.memory_keys)
        return k, v, ctx.memory_keys


# Whose queries and whose keys do not fill their rectangle; keys of a cache may be all there is.
Ragged: TypeAlias = tuple[Sequences | None, Sequences]


@dataclass(frozen=True, eq=False)
class How:
    """Who may look at whom, and how scores become weights."""

    causal: bool = False  # only at keys up to one's own place
    window: int | None = None  # only at keys this near
    bias: Tensor | None = None  # (1 or B, H, T, S) added to the scores
    scale: float = 1.0
    dropout: float = 0.0
    masks: dict[Any, Tensor | None] = field(default_factory=dict)  # of this call

    def once(self, what: Any, make: Callable[[], Tensor | None]) -> Tensor | None:
        """A mask is the same in all layers: the first one makes it.

        A compiler sees that itself; and one that learns (a bias) is made in every layer, so that
        a layer can be computed again alone.
        """
        if torch.compiler.is_compiling() or (self.bias is not None and self.bias.requires_grad):
            return make()
        if what not in self.masks:
            self.masks[what] = make()
        return self.masks[what]


def attend(
    q: Tensor,  # (N, H, D)
    k: Tensor,  # (M, G, D), or (B, G, S, D) from a cache
    v: Tensor,  # (M, G, Dv), or (B, G, S, Dv)
    queries: Sequences,
    keys: Sequences,
    how: How,
    looking: tuple[nn.Module, Look] | None = None,
) -> Tensor:  # (N, H, Dv)
    """softmax(q kᵀ · scale + bias) v, each text for itself. The only function that knows kernels.

    Where there are more keys than queries (a cache), the ends of both are aligned.
    """
    if looking is None and kernels.learns_slowly(q):
        how = replace(how, bias=how.bias if how.bias is None else how.bias.float(), masks={})
        return attend(q.float(), k.float(), v.float(), queries, keys, how).to(q.dtype)
    flat = k.dim() == 3
    even = queries.even(q) and (keys.even(k) if flat else keys.exact)
    ragged_way = not even or how.window is not None or kernels.many_short(q, queries)
    if flat and looking is None and ragged_way:
        if kernels.fits_varlen(q, v, how.bias, how.dropout):
            rules = (how.causal, how.window, how.scale)
            return kernels.ragged(q, k, v, queries, keys, *rules, how.once)
        if q.device.type == "cpu" and not torch.compiler.is_compiling():
            return _one_by_one(q, k, v, queries, keys, how)
    if flat:
        k, v = keys.pad(k).transpose(1, 2), keys.pad(v).transpose(1, 2)  # (B, G, S, D)
    ragged = None if even else (None if queries.even(q) else queries, keys)
    mixed = _dense(queries.pad(q).transpose(1, 2), k, v, ragged, how, looking)  # (B, H, T, Dv)
    return queries.unpad(mixed.transpose(1, 2), like=q)


def _one_by_one(
    q: Tensor, k: Tensor, v: Tensor, queries: Sequences, keys: Sequences, how: How
) -> Tensor:
    """On a CPU no kernel takes ragged texts, and a padded rectangle is mostly padding."""
    rows = []
    texts = (x.split(s.lengths) for x, s in ((q, queries), (k, keys), (v, keys)))
    for i, one in enumerate(zip(*texts, strict=True)):
        T, S = one[0].shape[0], one[1].shape[0]
        bias = how.bias
        if bias is not None:
            bias = bias[min(i, bias.shape[0] - 1), None, :, :T, :S]
        one_q, one_k, one_v = (x.transpose(0, 1)[None] for x in one)  # (1, H, T, D)
        alone = replace(how, bias=bias, masks={})
        rows.append(_dense(one_q, one_k, one_v, None, alone)[0].transpose(0, 1))
    return torch.cat(rows)


def _dense(
    q: Tensor,  # (B, H, T, D)
    k: Tensor,  # (B, G, S, D)
    v: Tensor,  # (B, G, S, Dv)
    ragged: Ragged | None,
    how: How,
    looking: tuple[nn.Module, Look] | None = None,
) -> Tensor:  # (B, H, T, Dv)
    T, S = q.shape[2], k.shape[2]
    bare = ragged is None and how.window is None and how.bias is None
    triangle = bare and T == S and how.causal
    if looking is not None:
        return attend_in_the_open(q, k, v, visible(T, S, ragged, how, q.device), how, *looking)
    what = (ragged, T, S, how.causal, how.window, how.bias)
    mask = None if triangle else how.once(what, lambda: _mask(T, S, ragged, how, q))
    return scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=triangle, scale=how.scale, dropout_p=how.dropout,
        enable_gqa=k.shape[1] != q.shape[1],
    )  # fmt: skip


def attend_in_the_open(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, how: How, where: nn.Module, ctx: Look
) -> Tensor:
    """The same arithmetic line by line as on the slide, for somebody who looks."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)  # (B, H, S, D)
    scores = q @ k.transpose(-1, -2) * how.scale  # (B, H, T, S)
    if how.bias is not None:
        scores = scores + how.bias
    scores = ctx.see(where, "scores", scores)
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)  # not 0: exp 0 = 1 would still be seen
    weights = ctx.see(where, "weights", scores.softmax(-1))
    return weights @ v


def _mask(T: int, S: int, ragged: Ragged | None, how: How, q: Tensor) -> Tensor | None:
    """What is added to the scores: the bias, and −∞ where nobody may look."""
    seen = visible(T, S, ragged, how, q.device)
    if seen is None:
        return how.bias
    bias = torch.zeros((), dtype=q.dtype, device=q.device) if how.bias is None else how.bias
    return bias.masked_fill(~seen, -math.inf)


def visible(
    T: int, S: int, ragged: Ragged | None, how: How, device: torch.device
) -> Tensor | None:  # (1 or B, 1, T, S)
    """Which keys each query may look at; None if all.

    causal, T = S = 4     ■ · · ·      window 1     ■ ■ · ·
                          ■ ■ · ·                   ■ ■ ■ ·
                          ■ ■ ■ ·                   · ■ ■ ■
                          ■ ■ ■ ■                   · · ■ ■
    """
    if ragged is None and how.window is None and (not how.causal or T == 1):
        return None
    row = torch.arange(T, device=device)[:, None]
    column = torch.arange(S, device=device)
    asked, held = (T, S) if ragged is None else (
        T if each is None else each.sizes[:, None, None, None] for each in ragged
    )  # fmt: skip
    seen = column < held  # (S,) or (B, 1, 1, S)
    back = row + (held - asked) - column  # how far behind the query the key lies
    if how.causal and T > 1:
        seen = seen & (back >= 0)
    if how.window is not None:
        seen = seen & (back.abs() <= how.window)
    if isinstance(asked, Tensor):  # rows of padding look at key 0: a softmax over nothing is NaN
        seen = seen | ((row >= asked) & (column == 0))
    return seen[None, None] if ragged is None else seen
