"""Figures of labelled data. None is our own: torchmetrics and nervaluate compute them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

PACKAGES = ("torchmetrics", "nervaluate")  # of the extra `metrics`
OUTSIDE, INSIDE = "O", re.compile(r"[BI]-.+", re.DOTALL)


def are_entities(labels: Sequence[str]) -> bool:
    """B-person, I-person, O: names are found, not only words tagged."""
    inside = [label for label in labels if label != OUTSIDE]
    return bool(inside) and all(map(INSIDE.fullmatch, inside))


def of_classes(found: Tensor, wanted: Tensor, count: int) -> dict[str, float]:
    """Numbers of classes, (texts,) each. Of two classes, F1 is that of the second."""
    from torchmetrics.functional import classification as of

    told = min(len(found.unique()), len(wanted.unique())) > 1
    figures: dict[str, Callable[[], Tensor]] = {
        "accuracy": lambda: of.multiclass_accuracy(found, wanted, count, average="micro"),
        "mcc": lambda: of.multiclass_matthews_corrcoef(found, wanted, count),
    }
    if not told:  # 0 by its definition; torchmetrics gives a majority more than that
        figures["mcc"] = lambda: torch.zeros(())
    if count == 2:
        figures["f1"] = lambda: of.binary_f1_score(found, wanted)
    else:
        figures["macro_f1"] = lambda: of.multiclass_f1_score(found, wanted, count, average="macro")
    return {name: float(figure()) for name, figure in figures.items()}


def of_sets(found: Tensor, wanted: Tensor) -> dict[str, float]:
    """A 1 for each label that a text has, (texts, labels) each."""
    from torchmetrics.functional import classification as of

    count = wanted.shape[1]
    f1 = {
        f"{how}_f1": of.multilabel_f1_score(found, wanted, count, average=how)
        for how in ("micro", "macro")
    }
    whole = of.multilabel_exact_match(found, wanted, count)
    return {name: float(value) for name, value in (f1 | {"exact_match": whole}).items()}


def of_values(found: Tensor, wanted: Tensor) -> dict[str, float]:
    from torchmetrics.functional.regression import pearson_corrcoef, spearman_corrcoef

    figures = {"pearson": pearson_corrcoef, "spearman": spearman_corrcoef}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # values that are all the same
        values = {name: float(figure(found, wanted)) for name, figure in figures.items()}
    # A model that says the same of everything knows nothing: no number would be no order.
    return {name: 0.0 if math.isnan(value) else value for name, value in values.items()}


def of_tags(
    found: Sequence[list[str]], wanted: Sequence[list[str]], labels: Sequence[str]
) -> dict[str, float]:
    """A tag for each word of each sentence. An entity counts if its words and kind are right."""
    known = {label: i for i, label in enumerate(dict.fromkeys([*labels, OUTSIDE, ""]))}
    flat = [
        torch.tensor([known[tag] for sentence in side for tag in sentence])
        for side in (found, wanted)
    ]
    figures = {"accuracy": of_classes(flat[0], flat[1], len(known))["accuracy"]}
    if are_entities(labels):
        from nervaluate import Evaluator

        kinds = sorted({label[2:] for label in labels if label != OUTSIDE})
        result = Evaluator(list(wanted), list(found), tags=kinds, loader="list").evaluate()
        figures["entity_f1"] = float(result["overall"]["strict"].f1)
    return figures


def of_answers(found: Sequence[str], wanted: Sequence[Sequence[str]]) -> dict[str, float]:
    """The best over all answers that are right; nothing is right where there are none."""
    from torchmetrics.functional.text import squad

    said = [{"prediction_text": text, "id": str(i)} for i, text in enumerate(found)]
    right: list[Any] = [
        {"answers": {"text": list(texts) or [""], "answer_start": [0]}, "id": str(i)}
        for i, texts in enumerate(wanted)
    ]
    return {name: float(value) / 100 for name, value in squad(said, right).items()}
