"""Embeddings, then blocks, then (pre-norm) one last norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.model.block import Block, Norm
from glassformer.model.cache import Cache
from glassformer.model.context import Context, Visitor
from glassformer.model.position import relative_bucket, rotation, sinusoid
from glassformer.model.sequences import Batch, Sequences


class Embedding(nn.Module):
    """Token + position + segment, each a table look-up: a one-hot vector times a matrix."""

    wave: Tensor | None

    def __init__(self, config: ModelConfig, token: nn.Embedding | None = None) -> None:
        super().__init__()
        C = config.width
        self.token = token or nn.Embedding(config.vocab_size, C)
        learned = config.position == "learned"
        self.position = nn.Embedding(config.max_length, C) if learned else None
        self.segment = nn.Embedding(config.segments, C) if config.segments else None
        self.norm = Norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout.embedding)
        self.scale = math.sqrt(C) if config.embedding_scale else 1.0
        waves = config.position == "sinusoidal"
        table = sinusoid(config.max_length, C, config.sinusoid) if waves else None
        self.register_buffer("wave", table, persistent=False)

    def forward(self, batch: Batch, positions: Tensor, ctx: Context) -> Tensor:  # (N, C)
        x = ctx.see(self, "tokens", self.token(batch.tokens) * self.scale)
        if self.segment is not None:
            zeros = torch.zeros_like(batch.tokens)
            kind = zeros if batch.segments is None else batch.segments
            x = x + ctx.see(self, "segments", self.segment(kind))
        if self.position is not None:
            x = x + ctx.see(self, "positions", self.position(positions))
        if self.wave is not None:
            x = x + ctx.see(self, "positions", self.wave[positions].to(x.dtype))
        if self.norm is not None:
            x = self.norm(x, ctx)
        return ctx.see(self, "out", self.dropout(x))


class Relative(nn.Module):
    """T5's positions: a learned number for each head and distance, added to the scores."""

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(config.relative_buckets, config.heads)
        self.buckets, self.furthest = config.relative_buckets, config.relative_distance
        self.causal = causal

    def forward(self, queries: Sequences, keys: Sequences) -> Tensor:  # (1 or B, H, T, S)
        device = self.table.weight.device
        row = torch.arange(queries.longest, device=device)[:, None]
        if keys is not queries:  # a cache: query i stands that much further on
            row = row + (keys.sizes - queries.sizes)[:, None, None]
        distance = torch.arange(keys.longest, device=device) - row  # ([B,] T, S)
        bucket = relative_bucket(
            distance.reshape(-1, *distance.shape[-2:]),
            both_sides=not self.causal,
            buckets=self.buckets,
            furthest=self.furthest,
        )
        bias: Tensor = self.table(bucket)  # (1 or B, T, S, H)
        return bias.permute(0, 3, 1, 2)


class Stack(nn.Module):
    """An encoder, or (causal) a decoder, or (with cross) the decoder of a translator."""

    cos: Tensor | None
    sin: Tensor | None

    def __init__(
        self,
        config: ModelConfig,
        *,
        depth: int,
        causal: bool = False,
        cross: bool = False,
        token: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(config, token)
        self.blocks = nn.ModuleList(Block(config, layer=i, cross=cross) for i in range(depth))
        self.norm = Norm(config) if config.final_norm else None
        self.relative = Relative(config, causal=causal) if config.position == "relative" else None
        self.causal, self.max_length = causal, config.max_length
        rotary = config.position == "rotary"
        sizes = (config.max_length, config.query_width, config.rotary_base)
        cos, sin = rotation(*sizes) if rotary else (None, None)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(
        self,
        batch: Batch,
        *,
        memory: Tensor | None = None,
        memory_keys: Sequences | None = None,
        cache: Cache | None = None,
        visitor: Visitor | None = None,
    ) -> Tensor:  # (N, C)
        queries = batch.sequences
        keys = queries if cache is None else cache.after(queries)
        positions = queries.positions(batch.tokens)
        if cache is not None:
            positions = positions + cache.lengths[queries.texts(batch.tokens)]
        turn = None
        if self.cos is not None and self.sin is not None:
            turn = self.cos[positions], self.sin[positions]
        ctx = Context(
            queries=queries,
            keys=keys,
            causal=self.causal,
            rotation=turn,
            bias=None if self.relative is None else self.relative(queries, keys),
            memory=memory,
            memory_keys=memory_keys,
            cache=cache,
            visitor=visitor,
        )
        x: Tensor = self.embedding(batch, positions, ctx)
        for block in self.blocks:
            x = block(x, ctx)
        if cache is not None:
            cache.advance(keys)
        if self.norm is not None:
            x = self.norm(x, ctx)
        return x
