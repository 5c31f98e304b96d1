"""Embeddings, then blocks, then (pre-norm) one last norm."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.model.block import Block, Dropout
from glassformer.model.cache import Cache
from glassformer.model.context import Context, Look, Visitor
from glassformer.model.norm import Norm
from glassformer.model.position import distance_rows, relative_bucket, rotation, sinusoid
from glassformer.model.sequences import Batch, Sequences


class Embedding(nn.Module):
    """Token + position + segment, each a table look-up: a one-hot vector times a matrix."""

    wave: Tensor | None

    def __init__(self, config: ModelConfig, token: nn.Embedding | None = None) -> None:
        super().__init__()
        C, rows = config.table_width, config.max_length + config.position_offset
        self.token = token or nn.Embedding(config.vocab_size, C)
        self.position = nn.Embedding(rows, C) if config.position == "learned" else None
        self.segment = nn.Embedding(config.segments, C) if config.segments else None
        self.norm = Norm(config, C) if config.embedding_norm else None
        self.project = nn.Linear(C, config.width) if config.width != C else None
        self.offset = config.position_offset
        self.dropout = Dropout(config.dropout.embedding)
        self.scale = math.sqrt(C) if config.embedding_scale else None
        waves = config.position == "sinusoidal"
        table = sinusoid(rows, C, config.sinusoid)[self.offset :] if waves else None
        self.register_buffer("wave", table, persistent=False)

    def forward(self, batch: Batch, positions: Tensor, ctx: Context) -> Tensor:  # (N, C)
        x = self.token(batch.tokens)
        x = ctx.see(self, "tokens", x if self.scale is None else x * self.scale)
        if self.segment is not None:
            # A look-up of one row for all tokens would have a slow gradient on a GPU.
            first = self.segment.weight[:1].expand_as(x)
            segments = first if batch.segments is None else self.segment(batch.segments)
            x = x + ctx.see(self, "segments", segments)
        if self.position is not None:
            x = x + ctx.see(self, "positions", self.position(positions + self.offset))
        if self.wave is not None:
            x = x + ctx.see(self, "positions", self.wave[positions].to(x.dtype))
        if self.norm is not None:
            x = self.norm(x, ctx)
        x = self.dropout(x)
        return ctx.see(self, "out", x if self.project is None else self.project(x))


class Relative(nn.Module):
    """A learned number for each head and distance, added to the scores: T5, and beside others."""

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(config.relative_buckets, config.heads)
        self.buckets, self.furthest = config.relative_buckets, config.relative_distance
        self.causal = causal

    def forward(self, queries: Sequences, keys: Sequences) -> Tensor:  # (1 or B, H, T, S)
        device = self.table.weight.device
        row = torch.arange(queries.longest, device=device)[:, None]
        if keys is not queries:  # with a cache, queries start after its keys
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


class Distances(nn.Module):
    """DeBERTa's positions: a vector for each distance, to compare queries and keys with."""

    rows: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(config.relative_buckets, config.width)
        self.norm = Norm(config)
        self.dropout = Dropout(config.dropout.embedding)
        self.furthest = config.relative_distance
        rows = distance_rows(config.relative_buckets, self.furthest)
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, queries: Sequences, look: Look) -> tuple[Tensor, Tensor]:  # (R, C), (T, S)
        """The vectors, and which of them belongs to each query and key."""
        place = torch.arange(queries.longest, device=self.rows.device)
        distance = (place[:, None] - place).clamp(-self.furthest, self.furthest)
        vectors = self.dropout(self.norm(self.table.weight, look))
        return vectors, self.rows[distance + self.furthest]


class Stack(nn.Module):
    """An encoder, or (causal) a decoder, or (with memory) the decoder of a translator."""

    turns: Tensor | None
    local_turns: Tensor | None

    def __init__(
        self,
        config: ModelConfig,
        *,
        depth: int,
        causal: bool = False,
        memory_width: int | None = None,
        token: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(config, token)
        own = min(1, depth) if config.shared_blocks else depth
        blocks = [Block(config, i, memory_width) for i in range(own)]
        self.blocks = nn.ModuleList(blocks[i % own] for i in range(depth))  # or one, many times
        self.norm = Norm(config) if config.final_norm else None
        bias, each = config.distances == "bias", config.relative_by_layer
        self.relative = Relative(config, causal=causal) if bias and not each else None
        layers = (Relative(config, causal=causal) for _ in range(depth))
        self.relative_layers = nn.ModuleList(layers) if each else None
        self.distances = Distances(config) if config.distances == "disentangled" else None
        self.causal = causal
        turns = local = None
        if config.position == "rotary":
            sizes = (config.max_length, config.rotary_width)
            turns = rotation(*sizes, config.rotary_base, config.rotary_scaling)
            if config.window is not None and config.local_rotary_base is not None:
                local = rotation(*sizes, config.local_rotary_base)
        self.register_buffer("turns", turns, persistent=False)
        self.register_buffer("local_turns", local, persistent=False)

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
        texts = queries.texts(batch.tokens)
        positions = queries.positions(batch.tokens, texts)
        if cache is not None:
            positions = positions + cache.lengths[texts]
        look = Look(visitor=visitor)
        turn, local, bias = None, None, None
        if self.turns is not None:
            turn = look.see(self, "rotation", self.turns[:, positions])
        if self.local_turns is not None:
            local = look.see(self, "local_rotation", self.local_turns[:, positions])
        if self.relative is not None:
            bias = look.see(self.relative, "bias", self.relative(queries, keys))
        ctx = Context(
            queries=queries,
            keys=keys,
            texts=texts,
            positions=positions,
            causal=self.causal,
            rotation=turn,
            local_rotation=local,
            bias=bias,
            distances=None if self.distances is None else self.distances(queries, look),
            memory=memory,
            memory_keys=memory_keys,
            cross_queries=queries if cache is None else cache.cross_queries(queries),
            cache=cache,
            visitor=visitor,
        )
        x: Tensor = self.embedding(batch, positions, ctx)
        for layer, block in enumerate(self.blocks):
            x = block(x, self.at(layer, ctx))
        if cache is not None:
            cache.advance(keys)
        if self.norm is not None:
            x = self.norm(x, ctx)
        return x

    def at(self, layer: int, ctx: Context) -> Context:
        """The context of one layer, which may have distances of its own."""
        if self.relative_layers is None:
            return ctx
        relative = self.relative_layers[layer]
        return replace(ctx, bias=ctx.see(relative, "bias", relative(ctx.queries, ctx.keys)))
