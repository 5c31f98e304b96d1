"""What a model predicts for a text, as readable words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from glassformer.glass import Prediction, Trace
from glassformer.glass import predictions as token_predictions
from glassformer.inference.answer import Search, span_logits
from glassformer.inference.classify import SCORES
from glassformer.loaded import Model
from glassformer.precision import widen
from glassformer.studio.schemas import AnswerSpan, Guess, Predictions, TokenPrediction
from glassformer.studio.tokenization import mask_token

TOP = 5
NEXT_SENTENCE = "next_sentence_logits"


def predictions(
    model: Model,
    trace: Trace,
    ids: Sequence[int],
    text: str | None,
    *,
    second: Mapping[int, str] | None = None,
) -> Predictions:
    """Predictions at each mask, at each token, for the whole text or of a span, depending on the
    task; and whether the second text of a pair follows the first, if the model predicts that.

    `ids` are the model's input tokens (of a translation, the decoder's); `text` is the translation;
    `second` has the characters of each token of the second text, by its place.
    """
    made = _predictions(model, trace, ids, text, second)
    if not second or NEXT_SENTENCE not in trace:
        return made
    return made.model_copy(update={"follows": float(widen(trace[NEXT_SENTENCE])[0].softmax(-1)[0])})


def _predictions(
    model: Model,
    trace: Trace,
    ids: Sequence[int],
    text: str | None,
    second: Mapping[int, str] | None,
) -> Predictions:
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
            kind="label", at=[TokenPrediction(token=0, top=label_guesses(model, trace["logits"]))]
        )
    if predicts == "span" and second:
        return answer_spans(trace["logits"], second)
    return Predictions(kind="none")


def answer_spans(logits: Tensor, tokens: Mapping[int, str]) -> Predictions:  # (T, 2)
    """The likeliest spans of these tokens, as `model.answer` ranks them, and the probabilities of
    each token as a start and as an end. `tokens` has the characters of each, by its place."""
    places = list(tokens)
    scores = widen(logits).double()[places]  # (S, 2)
    shares = torch.zeros_like(widen(logits).double())
    shares[places] = scores.softmax(0)
    sums = span_logits(scores, list(tokens.values()), Search.max_tokens)  # (S, L)
    valid = int(sums.isfinite().sum())
    best, order = sums.flatten().softmax(0).topk(min(TOP, valid))
    spans = [
        AnswerSpan(start=places[first], end=places[first + further], p=p)
        for i, p in zip(order.tolist(), best.tolist(), strict=True)
        for first, further in [divmod(i, sums.shape[1])]
    ]
    starts, ends = shares.T.tolist()
    return Predictions(kind="span", spans=spans, starts=starts, ends=ends)


def _at_tokens(model: Model, trace: Trace, tokens: Sequence[int]) -> list[TokenPrediction]:
    prediction = token_predictions(model, trace, top_k=TOP)
    return [TokenPrediction(token=token, top=guesses(model, prediction, token)) for token in tokens]


def guesses(model: Model, prediction: Prediction, row: int) -> list[Guess]:
    """One row of a prediction: tokens of the vocabulary, or labels."""
    labels = model.task.spec.traits.predicts == "token_labels"
    rows = (prediction.ids[row], prediction.words[row], prediction.probabilities[row].tolist())
    return [
        Guess(id=id, text=word if labels else readable(model, id), piece=word, p=p)
        for id, word, p in zip(*rows, strict=True)
    ]


def next_token_bits(model: Model, trace: Trace, ids: Sequence[int]) -> list[float | None]:
    """The surprisal of each token given those before it; empty unless the model predicts them."""
    if model.task.spec.traits.predicts != "next_token":
        return []
    rows = trace["logits"]
    return [None, *(surprisal_bits(rows[place], id) for place, id in enumerate(ids[1:]))]


def surprisal_bits(logits: Tensor, id: int) -> float:
    """−log₂ p of a token."""
    return max(0.0, float(-widen(logits).log_softmax(-1)[id] / math.log(2)))


def readable(model: Model, id: int) -> str:
    """A token of the vocabulary as it is read: Ġcat is cat, Ċ is a line end."""
    if model.tokenizer is None:
        return str(id)
    text = model.tokenizer.decode([id])
    return text.strip() or text or model.tokenizer.token(id)


def label_guesses(model: Model, logits: Tensor) -> list[Guess]:
    labels = model.task.spec.labels
    default = "regression" if len(labels) == 1 else "single_label_classification"
    stated = None if model.origin is None else model.origin.config.get("problem_type")
    values = SCORES.get(stated or default, torch.sigmoid)(logits[0].float())
    order = values.argsort(descending=True, stable=True).tolist()
    return [Guess(id=i, text=labels[i], piece=labels[i], p=float(values[i])) for i in order[:TOP]]
