"""Cross-encoders: how relevant each text is to a query, read together with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import InputError, shown
from glassformer.inference.checks import check_top_k
from glassformer.inference.embed import prompt_of, truncated, with_prompt
from glassformer.inference.sentence_files import SETTINGS, EmbeddingConfig, settings
from glassformer.inference.sentence_layers import ACTIVATIONS, activation_name
from glassformer.tasks import Task
from glassformer.text import Tokenizer


@dataclass(frozen=True)
class RankedText:
    """A text, its place in the list that was given, from 0, and how relevant it is."""

    index: int
    score: float
    text: str

    def __str__(self) -> str:
        return self.text


def rank(
    task: Task,
    tokenizer: Tokenizer,
    query: str,
    texts: Sequence[str],
    *,
    recipe: EmbeddingConfig,
    activation: str = "Sigmoid",
    top_k: int | None = None,
) -> list[RankedText]:
    """The texts by their relevance to the query, best first. A pair that is too long is truncated,
    its longer text first, with a warning.

    Args:
        recipe: the model's own maximum length and prompt
        activation: from the logit to the score
        top_k: how many texts; all, if not given
    """
    check_top_k(top_k, "rank")
    if not isinstance(query, str):
        raise InputError(f"rank: query = {shown(query)}: write one text")
    pairs = [(query, text) for text in texts]
    scores = rank_scores(task, tokenizer, pairs, recipe=recipe, activation=activation).tolist()
    ranked = [RankedText(*each) for each in zip(range(len(texts)), scores, texts, strict=True)]
    return sorted(ranked, key=lambda each: -each.score)[:top_k]


def rank_scores(
    task: Task,
    tokenizer: Tokenizer,
    pairs: Sequence[tuple[str, str]],
    *,
    recipe: EmbeddingConfig,
    activation: str = "Sigmoid",
) -> Tensor:  # (B,)
    """The score of each (query, text), in double precision; the options are those of `rank`."""
    config, before = task.backbone.config, prompt_of(recipe, None, None)
    most = min(recipe.max_length or config.max_length, config.max_length)
    texts = [with_prompt(pair, before, recipe.lower_case) for pair in pairs]
    ids, segments = truncated(tokenizer.encode_all(texts), most)
    if not ids:
        return torch.zeros(0, dtype=torch.double)
    with torch.no_grad():
        logits = torch.cat(task.logits(ids, segments=segments if config.segments else None))
    return ACTIVATIONS[activation](logits.cpu().double())


def rank_activation(files: Mapping[str, bytes], config: Mapping[str, Any]) -> str:
    """What makes scores of logits, as the files of a cross-encoder say; Sigmoid without them."""
    inner = config.get("sentence_transformers")
    for source, value in (
        (SETTINGS, settings(files, SETTINGS, "the model's folder").get("activation_fn")),
        ("config.json", inner.get("activation_fn") if isinstance(inner, dict) else None),
        ("config.json", config.get("sbert_ce_default_activation_function")),
    ):
        if value is not None:
            return activation_name(value, f"{source}: the activation of the scores")
    return "Sigmoid"
