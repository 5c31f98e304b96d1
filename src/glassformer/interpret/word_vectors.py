"""The vectors of words inside a model, for probes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError, shown
from glassformer.glass.lens import output_side
from glassformer.inference import check_tokenizer
from glassformer.loaded import Model, record


def word_vectors(model: Model, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """The output of each block at the first token of each word, (words, C), by its name in a trace.

    Args:
        sentences: lists of words, which are joined by spaces
    """
    if model.config.family == "seq2seq":
        raise ConfigError("probes are for models of one stack: load an encoder or a decoder")
    if not any(sentences):
        raise InputError("probes need words: write one sentence at least")
    stack, tokenizer = output_side(model.task), check_tokenizer(model.tokenizer)
    rows: dict[str, list[Tensor]] = {
        f"{stack}.blocks.{layer}.out": [] for layer in range(model.config.depth)
    }
    for words in sentences:
        text = " ".join(words)
        places = _first_tokens(tokenizer.encode(text).spans, words)
        trace = record(model, text, keep=list(rows))
        for name, parts in rows.items():
            parts.append(trace[name][places])
    return {name: torch.cat(parts) for name, parts in rows.items()}


def _first_tokens(spans: Sequence[tuple[int, int]], words: Sequence[str]) -> list[int]:
    """The first token that ends inside each word; `spans` are those of the joined text."""
    places, start = [], 0
    for word in words:
        inside = [i for i, (_, end) in enumerate(spans) if start < end <= start + len(word)]
        if not inside:
            raise InputError(f"the word {shown(word)} has no token here: leave it out")
        places.append(inside[0])
        start += len(word) + 1
    return places
