"""What a model says to a text, in words for people."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.glass import Prediction, Trace
from glassformer.glass import predictions as said
from glassformer.inference.classify import MEANINGS
from glassformer.loaded import Model
from glassformer.studio.reading import mask_of
from glassformer.studio.schemas import At, Guess, Says

TOP = 5


def predictions(model: Model, trace: Trace, ids: Sequence[int], text: str | None) -> Says:
    """`ids` are those that are answered: of a translation, what is written, and `text` too."""
    kind = model.task.spec.kind
    if kind in ("masked_lm", "masked_lm_nsp"):
        name = mask_of(model.tokenizer)
        mask = None if model.tokenizer is None or name is None else model.tokenizer.id(name)
        blanks = [place for place, i in enumerate(ids) if i == mask]
        if not blanks:
            return Says(kind="none")
        return Says(kind="masked", at=_places(model, said(model, trace, top_k=TOP), blanks))
    if kind in ("causal_lm", "translation", "token_classification"):
        at = _places(model, said(model, trace, top_k=TOP), range(len(ids)))
        if kind == "translation":
            return Says(kind="translation", at=at, text=text)
        return Says(kind="next" if kind == "causal_lm" else "label", at=at)
    if kind in ("classification", "next_sentence"):
        return Says(kind="label", at=[At(token=0, top=_labels(model, trace["logits"]))])
    return Says(kind="none")


def _places(model: Model, found: Prediction, places: Sequence[int]) -> list[At]:
    chances = found.chances.tolist()
    return [
        At(
            token=at,
            top=[
                Guess(text=readable(model, word), p=p)
                for word, p in zip(found.words[at], chances[at], strict=True)
            ],
        )
        for at in places
    ]


def readable(model: Model, word: str) -> str:
    """A piece of the vocabulary as it is read: Ġcat is cat."""
    number = None if model.tokenizer is None else model.tokenizer.id(word)
    if model.tokenizer is None or number is None or model.task.spec.kind == "token_classification":
        return word
    return model.tokenizer.decode([number]).strip() or word


def _labels(model: Model, logits: Tensor) -> list[Guess]:
    labels = model.task.spec.labels
    usual = "regression" if len(labels) == 1 else "single_label_classification"
    stated = None if model.origin is None else model.origin.config.get("problem_type")
    values = MEANINGS.get(stated or usual, torch.sigmoid)(logits[0].float())
    order = values.argsort(descending=True, stable=True).tolist()
    return [Guess(text=labels[i], p=float(values[i])) for i in order[:TOP]]
