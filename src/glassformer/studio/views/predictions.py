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
    predicts = model.task.spec.traits.predicts
    if predicts == "masked_tokens":
        name = mask_token(model.tokenizer)
        mask = None if model.tokenizer is None or name is None else model.tokenizer.id(name)
        masks = [place for place, i in enumerate(ids) if i == mask]
        if not masks:
            return Predictions(kind="none")
        return Predictions(kind="masked", at=_at_tokens(model, trace, masks))
    if predicts in ("next_token", "token_labels"):
        at = _at_tokens(model, trace, range(len(ids)))
        if model.task.backbone.config.family == "seq2seq":
            return Predictions(kind="translation", at=at, text=text)
        return Predictions(kind="next" if predicts == "next_token" else "label", at=at)
    if predicts == "label":
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
    if model.tokenizer is None or id is None or model.task.spec.traits.predicts == "token_labels":
        return word
    return model.tokenizer.decode([id]).strip() or word


def _labels(model: Model, logits: Tensor) -> list[Guess]:
    labels = model.task.spec.labels
    default = "regression" if len(labels) == 1 else "single_label_classification"
    stated = None if model.origin is None else model.origin.config.get("problem_type")
    values = SCORES.get(stated or default, torch.sigmoid)(logits[0].float())
    order = values.argsort(descending=True, stable=True).tolist()
    return [Guess(text=labels[i], p=float(values[i])) for i in order[:TOP]]
