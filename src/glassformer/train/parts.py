"""What a recipe asks for: the objective that makes its batches, and the model that learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from glassformer.config import DOCUMENTS, TokenIds
from glassformer.data.labelling import Answers, Documents
from glassformer.data.masking import Masking
from glassformer.data.objectives import Masked, MaskedPairs, NextWord, Objective, Translate
from glassformer.data.special_tokens import (
    END,
    MASK,
    PAD,
    SpecialTokenTemplate,
    end_of_text,
    find_id,
)
from glassformer.data.store import Store
from glassformer.errors import ConfigError
from glassformer.inference import embedding_config
from glassformer.recipe.schema import FAMILY, Recipe, model_config
from glassformer.tasks import Features, SentenceEmbedding, Task, build_task
from glassformer.text import Tokenizer
from glassformer.train.init_from import spec_of, started
from glassformer.train.labelled import OBJECTIVES


def objective_of(
    recipe: Recipe, store: Store, tokenizer: Tokenizer, task: Task, seed: int, source: str
) -> Objective:
    frame, learn = SpecialTokenTemplate.of(tokenizer), recipe.objective
    ids = task.backbone.config.ids
    pad = ids.pad or 0
    base = (store, frame, learn.length, pad, seed)
    if learn.kind == "causal_lm":
        return NextWord(*base)
    if learn.kind == "translation":
        end = end_of_text(tokenizer, frame)
        return Translate(*base, ids.start or pad, end, learn.label_smoothing if seed >= 0 else 0.0)
    if learn.kind == "question_answering":
        return Answers(*base, learn.overlap)
    if task.spec.pool in DOCUMENTS:
        return Documents(*base, learn.token_dropout)
    if learn.kind in OBJECTIVES:
        return OBJECTIVES[learn.kind](*base)
    masking = _masking(recipe, tokenizer, task.backbone.config.vocab_size, source)
    if learn.kind == "masked_lm":
        return Masked(*base, masking)
    return MaskedPairs(*base, masking, learn.sentence_order, learn.short_pair_fraction)


def _masking(recipe: Recipe, tokenizer: Tokenizer, vocab: int, source: str) -> Masking:
    mask = find_id(tokenizer, MASK)
    if mask is None:
        raise ConfigError(f"{source}: the tokenizer has no [MASK]: masked words need one")
    special, last = set(tokenizer.backend.get_added_tokens_decoder()), tokenizer.highest
    pieces = [tokenizer.token(i) for i in range(vocab)]
    return Masking(
        recipe.objective.mask_rate,
        recipe.objective.mask_unit,
        mask,
        vocab,
        forbidden=np.array([i in special or i > last for i in range(vocab)]),
        begins=np.array(_begin_words(pieces)),
    )


def _begin_words(pieces: list[str]) -> list[bool]:
    """WordPiece marks what goes on, byte-level BPE and Unigram what begins; others are words."""
    if any(piece.startswith("##") for piece in pieces):
        return [not piece.startswith("##") for piece in pieces]
    marked = [piece[:1] in ("Ġ", "▁") for piece in pieces]
    return marked if any(marked) else [True] * len(pieces)


def task_of(
    recipe: Recipe,
    tokenizer: Tokenizer,
    source: str,
    labels: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Task:
    """Fresh, or from the model to start with; `files` are those that lie beside it."""
    learn = recipe.objective
    torch.manual_seed(recipe.train.seed)
    if recipe.init_from is not None:
        task = started(recipe, source, labels, tell)
    else:
        pad, end = find_id(tokenizer, PAD), find_id(tokenizer, END)
        start = pad if FAMILY[learn.kind][0] == "seq2seq" else end
        ids = TokenIds(pad=pad, start=start, end=end)
        config = model_config(recipe, tokenizer.highest + 1, ids, source)
        task = build_task(config, spec_of(recipe, config, labels)).train()
    if task.spec.kind == "classification":  # the same head: what its scores mean, the data says
        several = recipe.data.label_separator is not None
        task.spec = task.spec.model_copy(update={"several": several})
    if isinstance(task, Features):
        how = pool_of(recipe, files or {})
        return SentenceEmbedding(
            task, pooling=how, scale=learn.scale, symmetric=learn.symmetric
        ).train()
    return task


def pool_of(recipe: Recipe, files: Mapping[str, bytes]) -> str:
    """How a text becomes a vector: as the recipe says, else as the model's own files do."""
    return recipe.objective.pool or embedding_config(files, str(recipe.init_from)).pool
