"""The calls of a model that read texts and generate none: one function from many items to results.

Each takes items of several requests, and returns a result for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.inference import rank_activation, rank_scores
from glassformer.loaded import Model
from glassformer.serve.explain import explain

Call = Callable[..., Sequence[Any]]


class NotFinite(Exception):
    """The model computed NaN or infinity."""


def embed(
    model: Model, texts: Sequence[str], *, prompt_name: str | None = None,
    normalize: bool | None = None,
) -> Sequence[Any]:  # fmt: skip
    vectors = model.embed(texts, prompt_name=prompt_name, normalize=normalize).float().cpu()
    _check(vectors)
    return list(vectors.numpy())


def rank(
    model: Model, pairs: Sequence[tuple[str, str]], *, raw_scores: bool = False
) -> Sequence[float]:
    task, tokenizer = model.able("rank")
    files, config = ({}, {}) if model.origin is None else (model.origin.files, model.origin.config)
    activation = "Identity" if raw_scores else rank_activation(files, config)
    scores = rank_scores(task, tokenizer, pairs, recipe=model.recipe, activation=activation)
    _check(scores)
    return [float(score) for score in scores]


def classify(model: Model, texts: Sequence[Any], *, raw_scores: bool = False) -> Sequence[Any]:
    results = model.classify(texts, problem="regression" if raw_scores else None)
    _check(torch.tensor([list(each.scores.values()) for each in results]))
    return results


def tag(model: Model, texts: Sequence[str]) -> Sequence[Any]:
    results = model.tag(list(texts))
    _check(torch.tensor([word.score for each in results for word in each.words]))
    return results


def fill(model: Model, texts: Sequence[str], *, top_k: int = 5) -> Sequence[Any]:
    results = model.fill(list(texts), top_k=top_k)
    blanks = [blank for each in results for blank in each]
    _check(torch.tensor([best.probability for blank in blanks for best in blank.candidates]))
    return results


def follows(model: Model, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
    probabilities = model.follows([a for a, _ in pairs], [b for _, b in pairs])
    _check(torch.tensor(probabilities))
    return probabilities


def answer(
    model: Model, pairs: Sequence[tuple[str, str]], *, top_k: int = 1, no_answer: bool = False
) -> Sequence[Any]:
    questions, contexts = [a for a, _ in pairs], [b for _, b in pairs]
    results = model.answer(questions, contexts, top_k=top_k, no_answer=no_answer)
    _check(torch.tensor([each.score for best in results for each in best]))
    return results


def explain_each(model: Model, items: Sequence[Any]) -> Sequence[Any]:
    return [explain(model, item) for item in items]


CALLS: dict[str, Call] = {
    "embed": embed, "rank": rank, "classify": classify, "tag": tag, "fill": fill,
    "follows": follows, "answer": answer, "explain": explain_each,
}  # fmt: skip


def run_call(
    model: Model, call: str, items: Sequence[Any], options: Sequence[tuple[str, Any]]
) -> Sequence[Any]:
    """The results of all items."""
    return CALLS[call](model, items, **dict(options))


def _check(values: Tensor) -> None:
    if not values.isfinite().all():
        raise NotFinite
