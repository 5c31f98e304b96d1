"""Token classification: a label for each word, at its first token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.config import TaskConfig
from glassformer.data.dataset import (
    NO_LABEL,
    BatchShape,
    Dataset,
    Skipped,
    concatenate,
    fill,
    make_batch,
    pack,
    pair_row,
    spans,
    take,
)  # fmt: skip
from glassformer.data.label_alignment import Document, LabelledWords
from glassformer.data.packing import Numbers, Samples
from glassformer.data.prepare import StoreKind
from glassformer.data.readers.conll import TaggedSentence, tagged
from glassformer.data.readers.examples import number_of
from glassformer.data.readers.files import Bad, stop
from glassformer.data.records import pick, records
from glassformer.data.run_paths import RunPaths
from glassformer.errors import InputError, shown
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts, Losses, ShortForm, token_labels
from glassformer.objectives.classification import balanced_losses
from glassformer.objectives.labelled import FIELDS, LabelledObjective, Raw
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from glassformer.model import Batch
    from glassformer.tasks import Task


# Usual names of columns, in rows that come from Python.
WORDS = ("words", "tokens")
TAGS = ("tags", "labels", "ner_tags", "pos_tags", "ner", "pos")


@dataclass(frozen=True)
class TokenClassificationDataset(Dataset):
    """Long sentences are cut between words, in the same places every time."""

    def samples(self, epoch: int) -> Samples:
        inside = self.length - self.template.width
        sentences = spans(self.store["tokens"])
        long = sentences[:, 1] > inside
        words = np.flatnonzero(self.store["labels"].row != NO_LABEL)
        parts = [_cut(int(start), int(size), inside, words) for start, size in sentences[long]]
        short = sentences[~long & (sentences[:, 1] > 0)]
        texts = np.concatenate([short, *parts])
        return Samples(texts[np.argsort(texts[:, 0], kind="stable")])

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] + self.template.width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        row = pair_row(self.template, take(self.store["tokens"], samples.first), None)
        tokens, sequences = pack(row, shape, self.pad)
        none = [(NO_LABEL,) * len(part) for part in (self.template.before, self.template.after)]
        labels, _ = concatenate(none[0], take(self.store["labels"], samples.first), none[1])
        return make_batch(tokens, sequences, labels=fill(labels, len(tokens), NO_LABEL))

    def skipped(self) -> list[Skipped]:
        sizes, inside = spans(self.store["tokens"])[:, 1], self.length - self.template.width
        reason = f"sentences of more than {inside} tokens, cut between words"
        return [
            Skipped(int((sizes > inside).sum()), reason, too_long=True),
            Skipped(int((sizes == 0).sum()), "sentences without a token, skipped"),
        ]


def _cut(start: int, size: int, inside: int, words: Numbers) -> Numbers:
    """Parts of at most `inside` tokens that end where words begin, if any does."""
    parts, at, end = [], start, start + size
    while at < end:
        stop = min(at + inside, end)
        if stop < end:
            last = int(words[np.searchsorted(words, stop, "right") - 1])
            stop = last if last > at else stop
        parts.append((at, stop - at))
        at = stop
    return np.array(parts, dtype=np.int64)


class TokenClassificationObjective(LabelledObjective):
    name, family, preset = "token_classification", "encoder", "bert-tiny"
    task = "token_classification"
    example_data = ("train.conll", "a word and its tag in each line; a blank line ends a sentence")
    fields = (*FIELDS, "data.tag", "objective.class_weights")
    best_by = ("entity_f1", "accuracy")
    reads_windows = True
    short_form = ShortForm(length=128, micro_batch_tokens=1024)

    def as_file(self, value: Any, name: str) -> tuple[str, str]:
        lines = []
        for i, row in enumerate(records(value, name, {2: ("words", "tags")})):
            where = f"{name}[{i}]"
            words, tags = pick(row, WORDS, where), pick(row, TAGS, where)
            if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
                raise InputError(f"{where}: give a list of words, and a list with a tag for each")
            for word, tag in zip(words, map(str, tags), strict=True):
                if not isinstance(word, str) or not word.strip() or set("\t\n\r") & {*word, *tag}:
                    raise InputError(f"{where}: {shown(word)}, {shown(tag)}: give a word and a tag")
                lines.append(f"{word}\t{tag}\n")
            lines.append("\n")
        return ".conll", "".join(lines)

    def raw(self, recipe: RecipeFields, path: Path, bad: Bad = stop) -> Iterator[Raw]:
        return tagged(path, recipe.data.tag, bad, recipe.data.encoding)

    def label_names(self, raw: TaggedSentence, recipe: RecipeFields) -> Sequence[str]:
        return raw.tags

    def encode_labels(
        self, recipe: RecipeFields, raw: TaggedSentence, labels: Sequence[str]
    ) -> Document:
        tags = [
            number_of(tag, labels, f"{raw.source}: line {line}", "tag")
            for tag, line in zip(raw.tags, raw.lines, strict=True)
        ]
        return LabelledWords(tuple(raw.words), tuple(tags))

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        return "tags"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        return TokenClassificationDataset(*parts.common(recipe.objective.length))

    def losses(self, recipe: RecipeFields, task: Task, dataset: Dataset) -> Losses | None:
        return balanced_losses(task, dataset) if recipe.objective.class_weights else None

    def metric_names(
        self, recipe: RecipeFields, labels: Sequence[str], documents: Sequence[Any] = ()
    ) -> tuple[str, ...]:
        from glassformer.evaluation.metrics import are_entities

        return ("entity_f1", "accuracy") if are_entities(labels) else ("accuracy",)

    def metrics(
        self, task: Task, tokenizer: Tokenizer, documents: Sequence[LabelledWords],
        labels: Sequence[str], pool: str,
    ) -> dict[str, Any]:  # fmt: skip
        from glassformer.evaluation import metrics
        from glassformer.inference import tag

        answers = tag(task, tokenizer, [list(each.words) for each in documents])
        right = [[labels[number] for number in each.tags] for each in documents]
        return metrics.of_tags([each.labels for each in answers], right, labels)

    def describe_labels(
        self, batch: Batch, number: int, spec: TaskConfig, piece: Callable[[int], str]
    ) -> str | dict[int, str]:
        return token_labels(batch, spec.labels.__getitem__)


OBJECTIVE = TokenClassificationObjective()
