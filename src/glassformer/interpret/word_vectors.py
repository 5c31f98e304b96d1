"""The vectors of words inside a model, for probes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.glass.lens import output_side
from glassformer.inference import check_tokenizer
from glassformer.loaded import Model, record


def word_vectors(model: Model, sentences: Sequence[Sequence[str]], *, layer: int) -> Tensor:
    """The output of block `layer` at the first token of each word, (words, C).

    Args:
        sentences: lists of words, which are joined by spaces
    """
    if model.config.family == "seq2seq":
        raise ConfigError("probes are for models of one stack: load an encoder or a decoder")
    stack = output_side(model.task)
    depth = model.config.depth
    if not 0 <= layer < depth:
        raise ConfigError(f"layer = {layer}: this model has layers 0 to {depth - 1}")
    tokenizer, name = check_tokenizer(model.tokenizer), f"{stack}.blocks.{layer}.out"
    rows = []
    for words in sentences:
        text = " ".join(words)
        spans = tokenizer.encode(text).spans
        vectors, start = record(model, text, keep=name)[name], 0
        for word in words:
            inside = [i for i, (_, end) in enumerate(spans) if start < end <= start + len(word)]
            rows.append(vectors[inside[0] if inside else 0])
            start += len(word) + 1
    return torch.stack(rows)
