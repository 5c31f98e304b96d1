"""Labels for texts and pairs of texts; and whether one text follows another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.config import DOCUMENTS
from glassformer.errors import InputError, shown
from glassformer.inference import documents
from glassformer.inference.checks import check_top_k
from glassformer.inference.documents import Ranked
from glassformer.inference.windows import logits, read, rows
from glassformer.tasks import Task
from glassformer.text import Text, Tokenizer

# What the scores mean, by the name that config.json has for it.
MEANINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "single_label_classification": lambda scores: scores.softmax(-1),
    "multi_label_classification": torch.sigmoid,
    "regression": lambda scores: scores,
}


@dataclass(frozen=True)
class Classified:
    """The best label of a text; `scores` has all that were asked for, best first.

    A score is a probability; of a regression, the number itself.
    """

    label: str
    score: float
    scores: dict[str, float]
    windows: int = 1  # how many the text was read in
    words: Ranked = ()  # of documents, where asked for: what weighed most, and how much
    sentences: Ranked = ()

    def __str__(self) -> str:
        return self.label


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
    """One answer a text or pair of texts.

    `problem` says what the scores are: one label of several (softmax; the rule), each label for
    itself (`multi_label_classification`: sigmoid), or numbers (`regression`; the rule for a single
    label). A text longer than the model is read in windows of the same size, and the mean of their
    logits counts: for probabilities that is the mean of their logarithms. A model with attention
    over words reads all of a document; of so many words and sentences it says, with `explain`, how
    much they weighed.
    """
    check_top_k(top_k, "classify")
    labels = task.spec.labels
    if problem is None:
        several = "multi_label_classification" if task.spec.several else None
        problem = several or ("regression" if len(labels) == 1 else "single_label_classification")
    if not isinstance(problem, str) or problem not in MEANINGS:
        raise InputError(f"problem_type = {shown(problem)}: write one of {', '.join(MEANINGS)}")
    said, counts, reasons = _said(task, tokenizer, texts, overlap, explain)
    found = []
    for each, count, reason in zip(said, counts, reasons, strict=True):
        scores = MEANINGS[problem](each)
        best, order = scores.sort(descending=True, stable=True)
        ranked = dict(zip([labels[i] for i in order], best.tolist(), strict=True))
        kept = dict(list(ranked.items())[:top_k])
        label, score = next(iter(kept.items()))
        found.append(Classified(label, score, kept, count, *reason))
    return found


def _said(
    task: Task, tokenizer: Tokenizer, texts: Sequence[Text], overlap: int | None, explain: int
) -> tuple[list[Tensor], list[int], list[tuple[Ranked, Ranked]]]:
    """For each text its logits, in how many windows it was read, and what weighed most in it."""
    if task.spec.pool in DOCUMENTS:
        read_whole = documents.read_documents(task, tokenizer, texts)
        counts = [max(len(each.windows) for each in whole.readings) for whole in read_whole]
        nothing: tuple[Ranked, Ranked] = ((), ())
        reasons = [
            documents.important(task, e, explain) if explain else nothing for e in read_whole
        ]
        return documents.logits(task, read_whole), counts, reasons
    if explain:
        raise InputError(
            f"explain: this model's pool = {task.spec.pool!r}, and only one of "
            f"{' or '.join(map(repr, DOCUMENTS))} tells which words it weighed: leave it out"
        )
    readings = read(task, tokenizer, texts, overlap=overlap)
    said = [torch.stack(parts).mean(0) for parts in logits(task, readings)]
    return said, [len(each.windows) for each in readings], [((), ())] * len(readings)


@torch.no_grad()
def follows(task: Task, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """For each pair (a, b) the probability that b comes right after a.

    Only where they meet matters, so that windows would not help: a pair that is too long for the
    model is refused.
    """
    for i, pair in enumerate(pairs):
        if isinstance(pair, str):
            raise InputError(f"text {i} is {shown(pair)}: write a pair of texts")
    readings = read(task, tokenizer, pairs)
    for i, pair in enumerate(pairs):
        if not all(map(str.strip, pair)):
            raise InputError(f"pair {i}: one of its texts is empty: write two texts")
    long = next((i for i, reading in enumerate(readings) if len(reading.windows) > 1), None)
    if long is not None:
        raise InputError(
            f"pair {long} has {len(readings[long].encoding.ids)} tokens and the model reads at "
            f"most {task.backbone.config.max_length}: leave out the start of one or the end of the "
            "other"
        )
    ids, segments = rows(task, readings)
    found: list[float] = []
    for batch in task.batches(ids, segments=segments):
        no_words = replace(batch, label_positions=batch.tokens[:0])  # the answer is not in them
        said = task(no_words)
        scores = (
            said.logits if said.next_sentence_logits is None else said.next_sentence_logits
        )  # (B, 2)
        found += scores.cpu().double().softmax(-1)[:, 0].tolist()
    return found
