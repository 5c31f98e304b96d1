"""Labelled data for a run: which documents, which classes, which objective, and how good it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer import inference
from glassformer.checkpoint import read_configs
from glassformer.config import DOCUMENTS
from glassformer.data import labelling
from glassformer.data.label_alignment import Document, LabelledText, LabelledWords, texts_of
from glassformer.data.objectives import Objective
from glassformer.data.prepare import Kind
from glassformer.data.readers.conll import TaggedSentence, tagged
from glassformer.data.readers.examples import (
    Example,
    TableColumns,
    are_values,
    examples,
    find_labels,
    guessed,
    labels_in,
    number_of,
    value_of,
)
from glassformer.data.readers.files import Bad, stop
from glassformer.data.readers.squad import Question, questions
from glassformer.data.split import in_range, plain
from glassformer.errors import ConfigError, InputError
from glassformer.evaluate import metrics
from glassformer.model import Batch
from glassformer.recipe.schema import FAMILY, Recipe
from glassformer.tasks import LossSum, Task
from glassformer.text import Tokenizer
from glassformer.train.loop import Losses

NEVER = 1e9  # a gradient so many times its usual size
Raw = Example | TaggedSentence | Question
OBJECTIVES: dict[str, type[Objective]] = {
    "classification": labelling.Classify,
    "token_classification": labelling.Tags,
    "question_answering": labelling.Answers,
    "sentence_embedding": labelling.Alike,
}


def table_of(recipe: Recipe, path: Path) -> TableColumns:
    """The columns that the recipe names, or those that look right."""
    data, labelled = recipe.data, recipe.objective.kind == "classification"
    table = TableColumns(
        data.text or "", data.text_pair, data.label, data.header or None, data.separator,
        data.label_prefix_separator, data.label_separator,
    )  # fmt: skip
    whole = table.text and (table.label or not labelled)
    return table if whole else guessed(path, table, labelled=labelled)


def read(recipe: Recipe, path: Path, bad: Bad = stop) -> Iterator[Raw]:
    match recipe.objective.kind:
        case "token_classification":
            yield from tagged(path, recipe.data.tag, bad)
        case "question_answering":
            yield from questions(path, bad)
        case _:
            yield from examples(path, table_of(recipe, path), bad)


def labels_of(recipe: Recipe, path: Path, tell: Callable[[str], None]) -> tuple[str, ...]:
    """The names of all classes, in the order of their numbers; a single one means values.

    A model to go on from that knows them all keeps its own.
    """
    learn, found = recipe.objective, set[str]()
    if learn.kind == "question_answering":
        return ()
    skip: Bad = (lambda error: None) if recipe.data.skip_bad else stop
    for each in read(recipe, path, skip):
        if isinstance(each, TaggedSentence):
            found.update(each.tags)
        elif isinstance(each, Example) and each.label is not None:
            found.update(labels_in(each.label, recipe.data.label_separator))
    if learn.kind != "token_classification":
        table = table_of(recipe, path)
        if table.text != recipe.data.text or (
            learn.kind == "classification" and not recipe.data.label
        ):
            tell(f"{path}: {table}")
        one = recipe.data.label_separator is None
        if learn.kind == "sentence_embedding" or (one and are_values(list(found))):
            return () if table.label is None else (table.label,)
    if len(found) < 2:
        only = next(iter(found), "")
        raise InputError(f"{path}: all labels are {only!r}: there is nothing to tell")
    if recipe.init_from is not None:
        _, known = read_configs(recipe.init_from)
        if known.kind == FAMILY[learn.kind][1] and found <= set(known.labels):
            return known.labels
    return find_labels(found)


def documents(
    recipe: Recipe, path: Path, labels: Sequence[str], part: str, tell: Callable[[str], None]
) -> Iterator[Document]:
    """Those of one part, their labels as numbers. Which part a text is in depends on itself."""
    data, wrong = recipe.data, list[InputError]()
    skip: Bad = wrong.append if data.skip_bad else stop
    for each in read(recipe, path, skip):
        try:
            document = marked(recipe, each, labels)
        except InputError as error:
            skip(error)
            continue
        if not data.splits or _is_held(each, document, recipe) == (part == "valid"):
            yield document
    if wrong:
        tell(f"{path}: {len(wrong):,} bad rows skipped, the first: {wrong[0]}")


def _is_held(raw: Raw, document: Document, recipe: Recipe) -> bool:
    low, high = recipe.data.held
    if recipe.data.fold_by == "text":
        return in_range(plain(_key(document)), low, high)
    place = raw.place if isinstance(raw, Example) else None
    if place is None:
        raise ConfigError(
            f"data.fold_by = 'name': {recipe.data.train} has no folder of files for each label: "
            "leave it out"
        )
    return low <= place < high


def _key(document: Document) -> str:
    """What decides where it goes: all questions about a text stay together."""
    return texts_of(document)[1 if isinstance(document, Question) else 0]


def marked(recipe: Recipe, raw: Raw, labels: Sequence[str]) -> Document:
    """With numbers for its labels."""
    learn = recipe.objective
    if isinstance(raw, Question):
        return raw
    if isinstance(raw, TaggedSentence):
        tags = [
            number_of(tag, labels, f"{raw.source}: line {line}", "tag")
            for tag, line in zip(raw.tags, raw.lines, strict=True)
        ]
        return LabelledWords(tuple(raw.words), tuple(tags))
    name = recipe.data.label or "label"
    if learn.kind == "sentence_embedding" and len(raw.texts) != 2:
        raise ConfigError(
            f"{raw.where}: objective.kind = 'sentence_embedding' takes two texts: write "
            "data.text_pair, the column of the other one"
        )
    if raw.label is None:
        return LabelledText(raw.texts)
    if recipe.data.label_separator is not None:
        names = labels_in(raw.label, recipe.data.label_separator)
        numbers = (number_of(each, labels, raw.where, name) for each in names)
        return LabelledText(raw.texts, several=tuple(numbers))
    if learn.kind == "sentence_embedding" or len(labels) == 1:
        return LabelledText(raw.texts, value_of(raw.label, raw.where, name) / learn.max_score)
    return LabelledText(raw.texts, number_of(raw.label, labels, raw.where, name))


def pooling_of(recipe: Recipe) -> str | None:
    """What is to stand for a text: as the recipe says, or as the model to go on from does it."""
    learn = recipe.objective
    if learn.pool is not None or learn.kind != "classification" or recipe.init_from is None:
        return learn.pool
    _, known = read_configs(recipe.init_from)
    return known.pool if known.kind == "classification" else None


def store_kind(recipe: Recipe, path: Path, labels: Sequence[str]) -> Kind:
    """What its store has to hold."""
    learn = recipe.objective
    if learn.kind in ("token_classification", "question_answering"):
        return "tags" if learn.kind == "token_classification" else "answers"
    table, pool = table_of(recipe, path), pooling_of(recipe)
    if pool in DOCUMENTS and table.second is not None:
        raise ConfigError(
            f"{path}: {table}: a pair, and objective.pool = {pool!r} reads one text: write "
            "data.text, the column to read"
        )
    if pool == "hierarchy":
        return "document_values" if len(labels) == 1 else "documents"
    if learn.kind == "sentence_embedding":
        return "alike" if table.label is None else "value_pairs"
    if recipe.data.label_separator is not None:
        return "several" if table.second is None else "several_pairs"
    if len(labels) == 1:
        return "values" if table.second is None else "value_pairs"
    return "classes" if table.second is None else "class_pairs"


def weighted(task: Task, objective: Objective) -> Losses:
    """Each class counts as much as every other one, however rare it is."""
    numbers = objective.store["labels"].row
    counts = np.bincount(numbers[numbers >= 0], minlength=len(task.spec.labels))
    weights = torch.tensor(counts.sum() / np.maximum(counts, 1) / len(counts), dtype=torch.float32)
    weights = weights.to(task.device)

    def losses(batch: Batch) -> dict[str, LossSum]:
        logits, labels = task(batch).logits.float(), batch.labels
        assert labels is not None  # noqa: S101
        total = F.cross_entropy(logits, labels, weights, ignore_index=-100, reduction="sum")
        return {"labels": LossSum(total, (labels != -100).sum())}

    return losses


def judged(recipe: Recipe, labels: Sequence[str], source: str) -> Recipe:
    """With the figure that chooses the result, and no watch for strange gradients."""
    kind, train = recipe.objective.kind, recipe.train
    several = recipe.data.label_separator is not None
    names = metrics.names_of(kind, labels, valued=bool(labels), several=several)
    by = train.best_by or names[0]
    if by not in ("loss", *names):
        raise ConfigError(
            f"{source}: train.best_by = {by!r}: of this data write one of loss, {', '.join(names)}"
        )
    found = {"best_by": by, "grad_spike_factor": train.grad_spike_factor or NEVER}
    return recipe.model_copy(update={"train": train.model_copy(update=found)})


@dataclass(frozen=True)
class LabelledEvaluator:
    """Uses the model on the held-out documents, as anybody would, and compares."""

    kind: str
    tokenizer: Tokenizer
    documents: list[Document]
    labels: tuple[str, ...]
    pool: str = "mean"

    @property
    def names(self) -> tuple[str, ...]:
        first = self.documents[0]
        valued = isinstance(first, LabelledText) and first.label is not None
        several = isinstance(first, LabelledText) and first.several is not None
        return metrics.names_of(self.kind, self.labels, valued=valued, several=several)

    def figures(self, task: Task) -> dict[str, float]:
        was = task.training
        task.eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what is cut was told before
            match self.kind:
                case "classification":
                    found = self._classify(task)
                case "token_classification":
                    found = self._tag(task)
                case "question_answering":
                    found = self._answer(task)
                case _:
                    found = self._embed(task)
        task.train(was)
        return {name: found[name] for name in self.names}

    def _classify(self, task: Task) -> dict[str, float]:
        given = cast("list[LabelledText]", self.documents)
        texts = [each.texts if len(each.texts) == 2 else each.texts[0] for each in given]
        said = inference.classify(task, self.tokenizer, texts)
        if given[0].several is not None:
            has = [[each.scores[label] > 0.5 for label in self.labels] for each in said]
            numbers = range(len(self.labels))
            right = [[number in (each.several or ()) for number in numbers] for each in given]
            return metrics.of_sets(torch.tensor(has).long(), torch.tensor(right).long())
        if len(self.labels) == 1:
            values = torch.tensor([each.score for each in said])
            return metrics.of_values(values, self._values())
        found = torch.tensor([self.labels.index(each.label) for each in said])
        wanted = torch.tensor([int(each.label or 0) for each in given])
        return metrics.of_classes(found, wanted, len(self.labels))

    def _tag(self, task: Task) -> dict[str, float]:
        given = cast("list[LabelledWords]", self.documents)
        said = inference.tag(task, self.tokenizer, [list(each.words) for each in given])
        wanted = [[self.labels[tag] for tag in each.tags] for each in given]
        return metrics.of_tags([each.labels for each in said], wanted, self.labels)

    def _answer(self, task: Task) -> dict[str, float]:
        given = cast("list[Question]", self.documents)
        asked = [(each.question, each.context) for each in given]
        maybe = any(each.impossible for each in given)
        said = inference.answer(task, self.tokenizer, asked, no_answer=maybe)
        texts = [best[0].text if best else "" for best in said]
        return metrics.of_answers(texts, [[text for text, _ in each.answers] for each in given])

    def _embed(self, task: Task) -> dict[str, float]:
        given = cast("list[LabelledText]", self.documents)
        recipe = inference.EmbeddingConfig(pool=self.pool, normalise=True)
        first, second = (
            inference.embed(task, self.tokenizer, side, recipe=recipe).float().cpu()
            for side in zip(*(each.texts for each in given), strict=True)
        )
        if given[0].label is not None:
            return metrics.of_values((first * second).sum(-1), self._values())
        chosen = inference.cosines(first, second).argmax(-1)
        return metrics.of_classes(chosen, torch.arange(len(given)), max(3, len(given)))

    def _values(self) -> Tensor:
        given: Any = self.documents
        return torch.tensor([each.label for each in given], dtype=torch.float32)
