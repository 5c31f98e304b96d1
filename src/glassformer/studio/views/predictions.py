"""What a model predicts for a text, as readable words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.glass import Trace
from glassformer.glass import predictions as token_predictions
from glassformer.inference.classify import SCORES
from glassformer.loaded import Model
from glassformer.studio.schemas import Guess, Predictions, TokenPrediction
from glassformer.studio.tokenization import mask_token

TOP = 5


def predictions(model: Model, trace: Trace, ids: Sequence[int], text: str | None) -> Predictions:
    """Predictions at each mask, at each token or for the whole text, depending on the task.

    `ids` are the model's input tokens (of a translation, the decoder's); `text` is the translation.
    """
    kind = model.task.spec.kind
    if kind in ("masked_lm", "masked_lm_nsp"):
        name = mask_token(model.tokenizer)
        mask = None if model.tokenizer is None or name is None else model.tokenizer.id(name)
        masks = [place for place, i in enumerate(ids) if i == mask]
        if not masks:
            return Predictions(kind="none")
        return Predictions(kind="masked", at=_at_tokens(model, trace, masks))
    if kind in ("causal_lm", "translation", "token_classification"):
        at = _at_tokens(model, trace, range(len(ids)))
        if kind == "translation":
            return Predictions(kind="translation", at=at, text=text)
        return Predictions(kind="next" if kind == "causal_lm" else "label", at=at)
    if kind in ("classification", "next_sentence"):
        return Predictions(
            kind="label", at=[TokenPrediction(token=0, top=_labels(model, trace["logits"]))]
        )
    return Predictions(kind="none")


def _at_tokens(model: Model, trace: Trace, tokens: Sequence[int]) -> list[TokenPrediction]:
    prediction = token_predictions(model, trace, top_k=TOP)
    chances = prediction.probabilities.tolist()
    return [
        TokenPrediction(
            token=token,
            top=[
                Guess(text=readable(model, word), p=p)
                for word, p in zip(prediction.words[token], chances[token], strict=True)
            ],
        )
        for token in tokens
    ]


def readable(model: Model, word: str) -> str:
    """A piece of the vocabulary as readable text: Ġcat is cat."""
    id = None if model.tokenizer is None else model.tokenizer.id(word)
    if model.tokenizer is None or id is None or model.task.spec.kind == "token_classification":
        return word
    return model.tokenizer.decode([id]).strip() or word


def _labels(model: Model, logits: Tensor) -> list[Guess]:
    labels = model.task.spec.labels
    default = "regression" if len(labels) == 1 else "single_label_classification"
    stated = None if model.origin is None else model.origin.config.get("problem_type")
    values = SCORES.get(stated or default, torch.sigmoid)(logits[0].float())
    order = values.argsort(descending=True, stable=True).tolist()
    return [Guess(text=labels[i], p=float(values[i])) for i in order[:TOP]]
