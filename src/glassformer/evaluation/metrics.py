"""Metrics of labelled data, by torchmetrics and nervaluate; `translation` has BLEU and chrF."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

PACKAGES = ("torchmetrics", "nervaluate")  # the extra `metrics`
OUTSIDE, INSIDE = "O", re.compile(r"[BI]-.+", re.DOTALL)


def are_entities(labels: Sequence[str]) -> bool:
    """Whether the labels tag entities, as B-person, I-person and O do."""
    inside = [label for label in labels if label != OUTSIDE]
    return bool(inside) and all(map(INSIDE.fullmatch, inside))


def of_classes(predictions: Tensor, targets: Tensor, count: int) -> dict[str, float]:
    """Metrics of class indices, (texts,) each. With two classes, F1 is that of the second."""
    from torchmetrics.functional import classification as of

    varied = min(len(predictions.unique()), len(targets.unique())) > 1
    metrics: dict[str, Callable[[], Tensor]] = {
        "accuracy": lambda: of.multiclass_accuracy(predictions, targets, count, average="micro"),
        "mcc": lambda: of.multiclass_matthews_corrcoef(predictions, targets, count),
    }
    if not varied:  # 0 by definition; torchmetrics gives a majority class more than that
        metrics["mcc"] = lambda: torch.zeros(())
    if count == 2:
        metrics["f1"] = lambda: of.binary_f1_score(predictions, targets)
    else:
        metrics["macro_f1"] = lambda: of.multiclass_f1_score(
            predictions, targets, count, average="macro"
        )
    return {name: float(metric()) for name, metric in metrics.items()}


def per_class(predictions: Tensor, targets: Tensor, labels: Sequence[str]) -> dict[str, Any]:
    """Of class indices, (texts,) each: precision, recall, F1 and support of each class, and the
    confusion matrix, with a row for each true class and a column for each predicted one."""
    from torchmetrics.functional import classification as of

    confusion = of.multiclass_confusion_matrix(predictions, targets, len(labels))
    scores = (of.multiclass_precision, of.multiclass_recall, of.multiclass_f1_score)
    classes = _by_class(predictions, targets, labels, scores, confusion.sum(1))
    return {"classes": classes, "confusion": confusion.tolist()}


def _by_class(
    predictions: Tensor, targets: Tensor, labels: Sequence[str],
    scores: Sequence[Callable[..., Tensor]], support: Tensor,
) -> dict[str, dict[str, float]]:  # fmt: skip
    """`scores` compute precision, recall and F1; `support` counts the texts of each class."""
    columns = {
        name: score(predictions, targets, len(labels), average="none").tolist()
        for name, score in zip(("precision", "recall", "f1"), scores, strict=True)
    }
    columns["support"] = [int(number) for number in support]
    return {
        label: {name: column[i] for name, column in columns.items()}
        for i, label in enumerate(labels)
    }


def of_sets(predictions: Tensor, targets: Tensor, labels: Sequence[str]) -> dict[str, Any]:
    """Metrics of multi-label classification, also of each label: 1 for each label of a text,
    (texts, labels) each."""
    from torchmetrics.functional import classification as of

    count = targets.shape[1]
    f1 = {
        f"{average}_f1": of.multilabel_f1_score(predictions, targets, count, average=average)
        for average in ("micro", "macro")
    }
    exact_match = of.multilabel_exact_match(predictions, targets, count)
    scores = (of.multilabel_precision, of.multilabel_recall, of.multilabel_f1_score)
    classes = _by_class(predictions, targets, labels, scores, targets.sum(0))
    whole = {name: float(value) for name, value in (f1 | {"exact_match": exact_match}).items()}
    return {**whole, "classes": classes}


def of_values(predictions: Tensor, targets: Tensor) -> dict[str, float]:
    """Correlations of predicted and true values, (texts,) each."""
    from torchmetrics.functional.regression import pearson_corrcoef, spearman_corrcoef

    metrics = {"pearson": pearson_corrcoef, "spearman": spearman_corrcoef}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # values that are all the same
        values = {name: float(metric(predictions, targets)) for name, metric in metrics.items()}
    # The correlation of a constant is undefined. 0 can be compared with other values, NaN cannot.
    return {name: 0.0 if math.isnan(value) else value for name, value in values.items()}


def of_tags(
    predictions: Sequence[list[str]], targets: Sequence[list[str]], labels: Sequence[str]
) -> dict[str, Any]:
    """Metrics of a tag per word of each sentence, also of each tag. An entity is correct if its
    span and type are."""
    others = (tag for side in (targets, predictions) for sentence in side for tag in sentence)
    names = list(dict.fromkeys([*labels, *others]))  # others: "O", or "" of a word without a token
    indices = {label: i for i, label in enumerate(names)}
    flat = [
        torch.tensor([indices[tag] for sentence in side for tag in sentence])
        for side in (predictions, targets)
    ]
    metrics: dict[str, Any] = per_class(flat[0], flat[1], names)
    metrics["accuracy"] = of_classes(flat[0], flat[1], len(names))["accuracy"]
    if are_entities(labels):
        from nervaluate import Evaluator

        kinds = sorted({label[2:] for label in labels if label != OUTSIDE})
        result = Evaluator(list(targets), list(predictions), tags=kinds, loader="list").evaluate()
        metrics["entity_f1"] = float(result["overall"]["strict"].f1)
    return metrics


def of_answers(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1 and exact match of SQuAD, the best over all references; without any, "" is correct."""
    from torchmetrics.functional.text import squad

    predictions = [{"prediction_text": text, "id": str(i)} for i, text in enumerate(answers)]
    targets: list[Any] = [
        {"answers": {"text": list(texts) or [""], "answer_start": [0]}, "id": str(i)}
        for i, texts in enumerate(references)
    ]
    return {name: float(value) / 100 for name, value in squad(predictions, targets).items()}
