"""Classification of texts and pairs of texts, and next sentence prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.config import DOCUMENTS, TaskConfig
from glassformer.errors import InputError, shown
from glassformer.inference import documents
from glassformer.inference.checks import check_top_k
from glassformer.inference.documents import Ranked
from glassformer.inference.windows import encode_windows, logits, rows
from glassformer.tasks import Task
from glassformer.text import Text, Tokenizer

# From logits to scores, by the problem_type of config.json.
SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "single_label_classification": lambda scores: scores.softmax(-1),
    "multi_label_classification": torch.sigmoid,
    "regression": lambda scores: scores,
}


@dataclass(frozen=True)
class Classified:
    """The best label of a text; `scores` has the others, too, best first.

    A score is a probability; for a regression, the value itself.
    """

    label: str
    score: float
    scores: dict[str, float]
    windows: int = 1  # that the text was read in
    words: Ranked = ()  # with `explain`: those with the largest weights, and the weights
    sentences: Ranked = ()

    def __str__(self) -> str:
        return self.label

    def cells(self, spec: TaskConfig) -> dict[str, Any]:
        """The prediction of a model with this head as columns of a table: `label` (all that are
        more likely than not, if there may be several) and `probability`; or a value by its name."""
        if len(spec.labels) == 1 and not spec.several:
            return {self.label: self.score}
        likely = [label for label, score in self.scores.items() if score > 0.5]
        label = "|".join(likely) if spec.several else self.label
        return {"label": label, "probability": self.score}


def classify(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[Text],
    *,
    top_k: int | None = None,
    problem: str | None = None,
    overlap: int | None = None,
    explain: int = 0,
) -> list[Classified]:
    """The labels and scores of each text or pair of texts.

    A text longer than the model is read in windows of the same size, and the mean of their logits
    counts: for probabilities that is their geometric mean. A model with attention over words reads
    all of a document.

    Args:
        top_k: how many labels; all, if not given
        problem: single_label_classification (softmax; the default), multi_label_classification
            (sigmoid), or regression (the default for a single label)
        overlap: tokens that neighbouring windows share; a quarter, if not given
        explain: also this many words and sentences with the largest attention weights, for a model
            with attention over words
    """
    check_top_k(top_k, "classify")
    labels = task.spec.labels
    if problem is None:
        several = "multi_label_classification" if task.spec.several else None
        problem = several or ("regression" if len(labels) == 1 else "single_label_classification")
    if not isinstance(problem, str) or problem not in SCORES:
        raise InputError(f"problem_type = {shown(problem)}: write one of {', '.join(SCORES)}")
    rows_of_logits, counts, reasons = _logits(task, tokenizer, texts, overlap, explain)
    results = []
    for row, count, reason in zip(rows_of_logits, counts, reasons, strict=True):
        scores = SCORES[problem](row)
        best, order = scores.sort(descending=True, stable=True)
        ranked = dict(zip([labels[i] for i in order], best.tolist(), strict=True))
        kept = dict(list(ranked.items())[:top_k])
        label, score = next(iter(kept.items()))
        results.append(Classified(label, score, kept, count, *reason))
    return results


def _logits(
    task: Task, tokenizer: Tokenizer, texts: Sequence[Text], overlap: int | None, explain: int
) -> tuple[list[Tensor], list[int], list[tuple[Ranked, Ranked]]]:
    """For each text its logits, the number of its windows, and its most important words."""
    if task.spec.pool in DOCUMENTS:
        whole = documents.read_documents(task, tokenizer, texts)
        counts = [max(len(text.windows) for text in document.parts) for document in whole]
        nothing: tuple[Ranked, Ranked] = ((), ())
        reasons = [
            documents.important(task, document, explain) if explain else nothing
            for document in whole
        ]
        return documents.logits(task, whole), counts, reasons
    if explain:
        raise InputError(
            f"explain: this model has pool = {task.spec.pool!r}: only models with "
            f"{' or '.join(map(repr, DOCUMENTS))} have weights of words: leave it out"
        )
    windowed = encode_windows(task, tokenizer, texts, overlap=overlap)
    means = [torch.stack(parts).mean(0) for parts in logits(task, windowed)]
    return means, [len(text.windows) for text in windowed], [((), ())] * len(windowed)


@torch.no_grad()
def follows(task: Task, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The probability, for each pair (a, b), that b directly follows a.

    Only the boundary between them matters, so windows would not help: a pair that is too long for
    the model is an InputError.
    """
    for i, pair in enumerate(pairs):
        if isinstance(pair, str):
            raise InputError(f"text {i} is {shown(pair)}: write a pair of texts")
    windowed = encode_windows(task, tokenizer, pairs)
    for i, pair in enumerate(pairs):
        if not all(map(str.strip, pair)):
            raise InputError(f"pair {i}: one of its texts is empty: write two texts")
    long = next((i for i, text in enumerate(windowed) if len(text.windows) > 1), None)
    if long is not None:
        raise InputError(
            f"pair {long} has {len(windowed[long].encoding.ids)} tokens and the model reads at "
            f"most {task.backbone.config.max_length}: shorten the start of the first or the end "
            "of the second"
        )
    ids, segments = rows(task, windowed)
    probabilities: list[float] = []
    for batch in task.batches(ids, segments=segments):
        # No logits of tokens are needed.
        output = task(replace(batch, label_positions=batch.tokens[:0]))
        pair_logits = output.next_sentence_logits
        scores = output.logits if pair_logits is None else pair_logits  # (B, 2)
        probabilities += scores.cpu().double().softmax(-1)[:, 0].tolist()
    return probabilities
