"""The three transformer families. They differ only in wiring."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.errors import ConfigError, InputError
from glassformer.model.cache import Cache
from glassformer.model.context import Visitor
from glassformer.model.init import initialise, materialise
from glassformer.model.sequences import Batch, Sequences
from glassformer.model.stack import Stack


class Encoder(nn.Module):
    """BERT: every token sees all tokens of its text."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Stack(config, depth=config.depth)

    @property
    def token_embedding(self) -> Tensor:
        """The token table, (V, C); a tied output layer multiplies by it."""
        return self.encoder.embedding.token.weight

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Tensor:  # (N, C)
        if cache is not None:
            raise InputError("an encoder sees both sides of each token: it cannot use a cache")
        hidden: Tensor = self.encoder(batch, visitor=visitor)
        return hidden


class Decoder(nn.Module):
    """GPT: every token sees only what came before it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = Stack(config, depth=config.depth, causal=True)

    @property
    def token_embedding(self) -> Tensor:
        return self.decoder.embedding.token.weight

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Tensor:  # (N, C)
        hidden: Tensor = self.decoder(batch, cache=cache, visitor=visitor)
        return hidden


class Seq2Seq(nn.Module):
    """Translation: an encoder reads the source, a decoder writes the target and looks back."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Stack(config, depth=config.depth)
        own = config.output_stack
        token = self.encoder.embedding.token if config.shared_embedding else None
        self.decoder = Stack(
            own, depth=own.depth, causal=True, memory_width=config.width, token=token
        )

    @property
    def token_embedding(self) -> Tensor:
        return self.decoder.embedding.token.weight

    def forward(
        self, batch: Batch, *, cache: Cache | None = None, visitor: Visitor | None = None
    ) -> Tensor:  # (N, C)
        memory, memory_keys = None, self._source(batch, cache)
        if batch.source is not None:
            memory = self.encoder(batch.source, visitor=visitor)
            if cache is not None:
                cache.memory = memory_keys
        hidden: Tensor = self.decoder(
            batch, memory=memory, memory_keys=memory_keys, cache=cache, visitor=visitor
        )
        return hidden

    @staticmethod
    def _source(batch: Batch, cache: Cache | None) -> Sequences:
        """Where the sources begin and end: in the batch, or after the first step in the cache."""
        if batch.source is None:
            if cache is None or cache.memory is None:
                raise InputError("a translation model needs a source text: pass source= to Batch")
            return cache.memory
        sources, texts = batch.source.sequences, batch.sequences.count
        if sources.count != texts:
            raise InputError(f"{sources.count} sources for {texts} targets: pass one for each")
        return sources


Backbone: TypeAlias = Encoder | Decoder | Seq2Seq
FAMILIES: dict[str, type[Backbone]] = {"encoder": Encoder, "decoder": Decoder, "seq2seq": Seq2Seq}


def build(
    config: ModelConfig, *, device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Backbone:  # fmt: skip
    """A new model with random weights, on `device` in `dtype` (float32 on the CPU by default).

    Examples:
        >>> backbone = gf.build(gf.PRESETS["bert-tiny"].model)
    """
    if not isinstance(config, ModelConfig):
        raise ConfigError(f"build({config!r}): give a gf.ModelConfig, as PRESETS[…].model is one")
    with torch.device("meta"):  # shapes first: memory is allocated and written once
        model = FAMILIES[config.family](config)
    materialise(model, device=device, dtype=dtype)
    initialise(model, config)
    return model
