"""Classification: a class, several classes, or a value for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from glassformer.config import DOCUMENTS, TaskConfig
from glassformer.data.dataset import (
    NO_LABEL,
    BatchShape,
    Dataset,
    Ragged,
    Skipped,
    concatenate,
    fill,
    make_batch,
    owners,
    pack,
    pair_row,
    read_in_parts,
    segment_ids,
    spans,
    take,
)  # fmt: skip
from glassformer.data.hashing import uniform
from glassformer.data.label_alignment import Document, LabelledText
from glassformer.data.packing import Numbers, Samples, windows
from glassformer.data.prepare import StoreKind
from glassformer.data.readers.examples import (
    Example,
    are_values,
    labels_in,
    number_of,
    value_of,
)  # fmt: skip
from glassformer.data.run_paths import RunPaths
from glassformer.errors import ConfigError
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts, Losses, ShortForm
from glassformer.objectives.labelled import TABLE_FIELDS, TableObjective
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch
    from glassformer.tasks import LossSum, Task


def targets(dataset: Dataset, samples: Samples) -> npt.NDArray[Any]:
    """The class, the value, or a 1 for each of its classes, of each sample's document."""
    store = dataset.store
    owner = owners(store["tokens"], samples.first)
    if "several" not in store.columns:
        column: npt.NDArray[Any] = store["values" if "values" in store.columns else "labels"].row
        return column[owner]
    chosen = spans(store["several"])[owner]
    hot = np.zeros((len(owner), len(store.meta.labels)))
    hot[np.repeat(np.arange(len(owner)), chosen[:, 1]), store["several"].take(chosen)] = 1.0
    return hot


@dataclass(frozen=True)
class ClassificationDataset(Dataset):
    """A text that is too long is read in parts, each with its label; such a pair is skipped."""

    @property
    def paired(self) -> bool:
        return "second" in self.store.columns

    def samples(self, epoch: int) -> Samples:
        tokens = self.store["tokens"]
        if not self.paired:
            inside = self.length - self.template.width
            return windows(tokens.offsets, inside, overlap=0, seed=self.seed, epoch=epoch)
        first, second = spans(tokens), spans(self.store["second"])
        fits = first[:, 1] + second[:, 1] <= self.length - self.template.pair_width
        fits &= (first[:, 1] > 0) & (second[:, 1] > 0)
        return Samples(first[fits], second[fits])

    def costs(self, samples: Samples) -> Numbers:
        if samples.second is None:
            return samples.first[:, 1] + self.template.width
        return samples.first[:, 1] + samples.second[:, 1] + self.template.pair_width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        a = take(self.store["tokens"], samples.first)
        b = None if samples.second is None else take(self.store["second"], samples.second)
        row = pair_row(self.template, a, b)
        tokens, sequences = pack(row, shape, self.pad)
        labels = fill(targets(self, samples), sequences.count, NO_LABEL)
        segments = None
        if b is not None:
            second = b.sizes + len(self.template.closing)
            segments = segment_ids(self.template, row.sizes, second, len(tokens))
        return make_batch(tokens, sequences, segments=segments, labels=labels)

    def skipped(self) -> list[Skipped]:
        tokens = self.store["tokens"]
        if not self.paired:
            count = int((spans(tokens)[:, 1] == 0).sum())
            empty = Skipped(count, "texts without a token, skipped")
            return [read_in_parts(self.store, self.length - self.template.width, "texts"), empty]
        count = self.store.documents - len(self.samples(0))
        return [Skipped(count, f"pairs of more than {self.length} tokens, skipped", too_long=True)]


@dataclass(frozen=True)
class DocumentDataset(Dataset):
    """Whole documents of any length, by sentences where the store has them; sentences that are too
    long are read in parts. In training some tokens are dropped."""

    token_dropout: float

    def samples(self, epoch: int) -> Samples:
        documents = spans(self.store["tokens"])
        return Samples(documents[documents[:, 1] > 0])

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] + self.template.width * self._texts(samples)[1]

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        from glassformer.model import Sequences

        texts, counts = self._texts(samples)
        row = take(self.store["tokens"], texts)
        if self.token_dropout and self.is_training:
            row = self._drop_tokens(row, texts, epoch)
        row = concatenate(self.template.before, row, self.template.after)
        tokens, sequences = pack(row, shape, self.pad)
        labels = targets(self, samples)
        return make_batch(
            tokens, sequences, documents=Sequences.of(counts.tolist()),
            labels=fill(labels, len(labels), NO_LABEL),
        )  # fmt: skip

    def _texts(self, samples: Samples) -> tuple[Numbers, Numbers]:
        """The spans of all texts, and how many each document has."""
        inside = self.length - self.template.width
        texts = []
        owner = owners(self.store["tokens"], samples.first)
        for number, (start, size) in zip(owner, samples.first, strict=True):
            edges = pairwise([*self._sentence_starts(number), size])
            starts = np.concatenate([np.arange(a, b, inside) for a, b in edges])
            texts.append(np.stack([start + starts, np.diff(starts, append=size)], 1))
        return np.concatenate(texts), np.array([len(rows) for rows in texts])

    def _sentence_starts(self, document: int) -> Numbers:
        if "sentences" not in self.store.columns:
            return np.zeros(1, np.int64)
        column = self.store["sentences"]
        starts: Numbers = column.row[slice(*column.offsets[document : document + 2])]
        return starts

    def _drop_tokens(self, row: Ragged, texts: Numbers, epoch: int) -> Ragged:
        """Other tokens in every epoch; each text keeps at least one."""
        starts = row.sizes.cumsum() - row.sizes
        place = np.arange(len(row.values)) + np.repeat(texts[:, 0] - starts, row.sizes)
        stays = uniform(self.seed, epoch, place) >= self.token_dropout
        stays[starts[np.add.reduceat(stays, starts) == 0]] = True
        return Ragged(row.values[stays], np.add.reduceat(stays, starts, dtype=np.int64))

    def skipped(self) -> list[Skipped]:
        tokens, inside = self.store["tokens"], self.length - self.template.width
        sizes = spans(tokens)[:, 1]
        empty = Skipped(int((sizes == 0).sum()), "empty texts, skipped")
        if "sentences" in self.store.columns:
            sentences = self.store["sentences"]
            starts = sentences.row + np.repeat(tokens.offsets[:-1], np.diff(sentences.offsets))
            sizes = np.diff(starts, append=len(tokens))
        reason = f"texts of more than {inside} tokens, read in parts"
        return [Skipped(int((sizes > inside).sum()), reason, too_long=True), empty]


class ClassificationObjective(TableObjective):
    name, family, task, preset = "classification", "encoder", "classification", "bert-tiny"
    example_data = ("train.tsv", "a table with the columns text and label")
    fields = (
        *TABLE_FIELDS, "data.label_separator", "data.fold_by", "objective.regression",
        "objective.class_weights", "objective.token_dropout",
    )  # fmt: skip
    columns = MappingProxyType({2: ("text", "label"), 3: ("sentence1", "sentence2", "label")})
    best_by = (
        "accuracy", "f1", "macro_f1", "mcc", "micro_f1", "exact_match", "pearson", "spearman",
    )  # fmt: skip
    short_form = ShortForm(length=128, micro_batch_tokens=1024)

    def check(self, recipe: RecipeFields) -> None:
        data, options = recipe.data, recipe.objective
        if data.label_separator is not None and options.class_weights:
            raise ValueError(
                "objective.class_weights is for classes that exclude each other: leave it out, or "
                "data.label_separator"
            )
        if options.regression and (data.label_separator is not None or options.class_weights):
            raise ValueError(
                "objective.regression = true: numbers have no classes: leave "
                f"{'objective.class_weights' if options.class_weights else 'data.label_separator'} "
                "out"
            )
        if options.token_dropout and options.pool not in DOCUMENTS:
            raise ValueError(
                f"objective.token_dropout = {options.token_dropout} is for objective.pool = "
                f"'words' or 'hierarchy', and here it is {options.pool!r}: leave it out"
            )
        check_document_pool(recipe, options.pool)

    def check_initial(self, recipe: RecipeFields) -> None:
        check_document_pool(recipe, document_pool(recipe))

    def label_names(self, raw: Example, recipe: RecipeFields) -> Sequence[str]:
        return [] if raw.label is None else labels_in(raw.label, recipe.data.label_separator)

    def labels(self, recipe: RecipeFields, paths: RunPaths) -> tuple[str, ...]:
        """The classes; a single name, that of the column, means regression targets."""
        names = self.all_labels(recipe, paths)  # first: a bad row is reported alone
        path, regression = paths.data(recipe.data.train), recipe.objective.regression
        table = self.log_guess(recipe, path, paths.log)
        if regression is None and recipe.data.label_separator is None and are_values(names):
            regression = True
            paths.log(
                f"{path}: the labels are decimal numbers, so this is a regression: "
                "--objective.regression false makes them classes"
            )
        if regression:
            return () if table.label is None else (table.label,)
        return self.order_labels(recipe, paths, names)

    def encode_labels(self, recipe: RecipeFields, raw: Example, labels: Sequence[str]) -> Document:
        name = recipe.data.label or "label"
        if raw.label is None:
            return LabelledText(raw.texts)
        if recipe.data.label_separator is not None:
            names = labels_in(raw.label, recipe.data.label_separator)
            numbers = (number_of(each, labels, raw.where, name) for each in names)
            return LabelledText(raw.texts, several=tuple(numbers))
        if len(labels) == 1:
            return LabelledText(raw.texts, value_of(raw.label, raw.where, name))
        return LabelledText(raw.texts, number_of(raw.label, labels, raw.where, name))

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        path = paths.data(recipe.data.train)
        table, pool = self.table(recipe, path), document_pool(recipe)
        if pool in DOCUMENTS and table.second is not None:
            raise ConfigError(
                f"{path}: {table}: a pair, and objective.pool = {pool!r} reads one text: write "
                "data.text, the column to read"
            )
        regression = len(paths.labels) == 1
        if pool == "hierarchy":
            return "document_values" if regression else "documents"
        if recipe.data.label_separator is not None:
            return "several" if table.second is None else "several_pairs"
        if regression:
            return "values" if table.second is None else "value_pairs"
        return "classes" if table.second is None else "class_pairs"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        common = parts.common(recipe.objective.length)
        if parts.task.spec.pool in DOCUMENTS:
            return DocumentDataset(*common, recipe.objective.token_dropout)
        return ClassificationDataset(*common)

    def choose_head(self, recipe: RecipeFields, heads: list[TaskConfig]) -> TaskConfig:
        pool = recipe.objective.pool
        for head in heads:
            if pool in (None, head.pool):
                return head
        usual = " or ".join(repr(head.pool) for head in heads)
        raise ConfigError(
            f"objective.pool = {pool!r}: in the layout of this model it is {usual}: leave it out"
        )

    def keeps_head(self, recipe: RecipeFields, head: TaskConfig, target: TaskConfig) -> bool:
        pool = recipe.objective.pool
        return super().keeps_head(recipe, head, target) and pool in (None, head.pool)

    def wrap(self, recipe: RecipeFields, task: Task, files: Any) -> Task:
        several = recipe.data.label_separator is not None  # the same head: the data decides
        task.spec = task.spec.model_copy(update={"several": several})
        return task

    def losses(self, recipe: RecipeFields, task: Task, dataset: Dataset) -> Losses | None:
        return balanced_losses(task, dataset) if recipe.objective.class_weights else None

    def metric_names(
        self, recipe: RecipeFields, labels: Sequence[str], documents: Sequence[Any] = ()
    ) -> tuple[str, ...]:
        if recipe.data.label_separator is not None:
            return ("micro_f1", "macro_f1", "exact_match")
        if len(labels) == 1:
            return ("spearman", "pearson")
        return ("accuracy", "f1" if len(labels) == 2 else "macro_f1", "mcc")

    def metrics(
        self, task: Task, tokenizer: Tokenizer, documents: Sequence[LabelledText],
        labels: Sequence[str], pool: str,
    ) -> dict[str, Any]:  # fmt: skip
        import torch

        from glassformer.evaluation import metrics
        from glassformer.inference import classify

        texts = [each.texts if len(each.texts) == 2 else each.texts[0] for each in documents]
        answers = classify(task, tokenizer, texts)
        if documents[0].several is not None:
            predicted = [[each.scores[label] > 0.5 for label in labels] for each in answers]
            numbers = range(len(labels))
            right = [[number in (each.several or ()) for number in numbers] for each in documents]
            return metrics.of_sets(
                torch.tensor(predicted).long(), torch.tensor(right).long(), labels
            )
        if len(labels) == 1:
            scores = torch.tensor([each.score for each in answers])
            values = torch.tensor([each.label for each in documents], dtype=torch.float32)
            return metrics.of_values(scores, values)
        predictions = torch.tensor([labels.index(each.label) for each in answers])
        classes = torch.tensor([int(each.label or 0) for each in documents])
        whole = metrics.of_classes(predictions, classes, len(labels))
        return whole | metrics.per_class(predictions, classes, labels)

    def describe_labels(
        self, batch: Batch, number: int, spec: TaskConfig, piece: Callable[[int], str]
    ) -> str | dict[int, str]:
        assert batch.labels is not None  # noqa: S101
        label = batch.labels[number]
        if spec.several:
            names = zip(spec.labels, label.tolist(), strict=True)
            return ", ".join(name for name, has in names if has == 1) or "(none)"
        return f"{label:.4g}" if label.is_floating_point() else spec.labels[int(label)]

    def probe(self, recipe: RecipeFields, task: Task, tokens: int, texts: int) -> dict[str, Tensor]:
        import torch

        if task.spec.several:
            return {"labels": torch.zeros(texts, len(task.spec.labels))}
        labels = torch.zeros(texts, dtype=torch.long)
        return {"labels": labels.float() if len(task.spec.labels) == 1 else labels}


def document_pool(recipe: RecipeFields) -> str | None:
    """How a text is pooled: as the recipe says, or as the initial model does it."""
    if recipe.objective.pool is not None or recipe.init_from is None:
        return recipe.objective.pool
    from glassformer.checkpoint import read_configs

    head = read_configs(recipe.init_from)[1]
    return head.pool if head.kind == OBJECTIVE.task else None


def check_document_pool(recipe: RecipeFields, pool: str | None) -> None:
    """Attention over words reads documents, each of one text with one label."""
    if pool not in DOCUMENTS:
        return
    data, train = recipe.data, recipe.train
    whose = "" if recipe.objective.pool else f", as {recipe.init_from} has it"
    for name, value, wrong, write in (
        ("data.label_separator", data.label_separator, data.label_separator is not None,
         "one label a text"),
        ("data.text_pair", data.text_pair, data.text_pair is not None, "one text"),
        ("train.compile", True, train.compile, "false: documents are of all lengths"),
        ("train.cuda_graphs", True, train.cuda_graphs, "false: documents are of all lengths"),
    ):  # fmt: skip
        if wrong:
            raise ValueError(
                f"{name} = {value!r} with objective.pool = {pool!r}{whose}: write {write}"
            )


def balanced_losses(task: Task, dataset: Dataset) -> Losses:
    """Each class counts as much as every other one, however rare it is."""
    import torch
    from torch.nn import functional as F

    from glassformer.tasks import LossSum

    numbers = dataset.store["labels"].row
    counts = np.bincount(numbers[numbers >= 0], minlength=len(task.spec.labels))
    weights = torch.tensor(counts.sum() / np.maximum(counts, 1) / len(counts), dtype=torch.float32)
    weights = weights.to(task.device)

    def losses(batch: Batch) -> dict[str, LossSum]:
        logits, labels = task(batch).logits.float(), batch.labels
        assert labels is not None  # noqa: S101
        total = F.cross_entropy(logits, labels, weights, ignore_index=NO_LABEL, reduction="sum")
        return {"labels": LossSum(total, (labels != NO_LABEL).sum())}

    return losses


OBJECTIVE = ClassificationObjective()
