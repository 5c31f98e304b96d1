"""What the objectives with labels share: columns, splits, class numbers, heads and metrics."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.config import ModelConfig, TaskConfig
from glassformer.data.label_alignment import Document, LabelledText, texts_of
from glassformer.data.readers.conll import TaggedSentence
from glassformer.data.readers.examples import Example, TableColumns, examples, find_labels, guessed
from glassformer.data.readers.files import Bad, BadRows, stop
from glassformer.data.readers.squad import Question
from glassformer.data.records import Columns, as_jsonl, records
from glassformer.data.run_paths import RunPaths
from glassformer.data.split import in_range, plain
from glassformer.data.store import Store
from glassformer.errors import ConfigError, InputError
from glassformer.fields import RecipeFields
from glassformer.objectives.base import Evaluator, Objective
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from glassformer.tasks import Task

Raw = Example | TaggedSentence | Question
Log = Callable[[str], None]
FIELDS = ("data.fold",)
TABLE_FIELDS = (
    *FIELDS, "data.text", "data.text_pair", "data.header", "data.separator",
    "data.label", "data.label_prefix_separator", "objective.pool",
)  # fmt: skip
METRIC_PACKAGES = ("torchmetrics", "nervaluate")
MOST_SHOWN = 20  # labels in a line
DETAILS = ("classes", "confusion")  # of `evaluate`: not numbers, but tables


class LabelledObjective(Objective):
    labelled = True
    packages = METRIC_PACKAGES

    @abstractmethod
    def raw(self, recipe: RecipeFields, path: Path, bad: Bad = stop) -> Iterator[Raw]:
        """The examples of a file, as it has them; `bad` gets the error of each unusable one."""

    @abstractmethod
    def as_file(self, value: Any, name: str) -> tuple[str, str]:
        """Examples from Python as a file that `raw` reads: its suffix and its text.

        Args:
            value: what `data.records` accepts
            name: what the caller calls it, for errors
        """

    @abstractmethod
    def encode_labels(self, recipe: RecipeFields, raw: Any, labels: Sequence[str]) -> Document:
        """The example with its labels as numbers."""

    @abstractmethod
    def metric_names(
        self, recipe: RecipeFields, labels: Sequence[str], documents: Sequence[Document] = ()
    ) -> tuple[str, ...]:
        """The metrics of such data, the most telling one first."""

    @abstractmethod
    def metrics(
        self, task: Task, tokenizer: Tokenizer, documents: Sequence[Any], labels: Sequence[str],
        pool: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Use the model on these documents, and compare with their labels; see `evaluation`."""

    def label_names(self, raw: Any, recipe: RecipeFields) -> Sequence[str]:
        """The classes of one example."""
        return ()

    def accepts(self, config: ModelConfig) -> bool:
        return config.family in (self.family, "decoder")  # a decoder labels what it has read

    def documents(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[Document]:
        path = paths.data(recipe.data.part(part)[0].train)
        encode: Encode = lambda raw: self.encode_labels(recipe, raw, paths.labels)  # noqa: E731
        return split(recipe, path, part, self.raw, encode, paths.log)

    def labels(self, recipe: RecipeFields, paths: RunPaths) -> tuple[str, ...]:
        return self.order_labels(recipe, paths, self.all_labels(recipe, paths))

    def all_labels(self, recipe: RecipeFields, paths: RunPaths) -> list[str]:
        """Each class of the training data once."""
        path = paths.data(recipe.data.train)
        with BadRows(path, recipe.data.skip_bad, log=lambda line: None) as bad:
            rows = self.raw(recipe, path, bad)
            return list(dict.fromkeys(n for raw in rows for n in self.label_names(raw, recipe)))

    def order_labels(
        self, recipe: RecipeFields, paths: RunPaths, names: Sequence[str]
    ) -> tuple[str, ...]:
        """By number or name; an initial model that has them all keeps its own order."""
        if len(names) < 2:
            only = next(iter(names), "")
            path = paths.data(recipe.data.train)
            raise InputError(f"{path}: all labels are {only!r}: there is nothing to learn")
        if recipe.init_from is not None:
            from glassformer.checkpoint import read_configs

            head = read_configs(recipe.init_from)[1]
            if head.kind == self.task and set(names) <= set(head.labels):
                return head.labels
        return find_labels(names)

    def task_config(
        self, recipe: RecipeFields, config: ModelConfig, labels: Sequence[str]
    ) -> TaskConfig:
        """The head in the usual layout of this backbone, so that other libraries can use it."""
        from glassformer.checkpoint import fitting

        heads = fitting(config, self.task, labels)
        if not heads:
            raise ConfigError(
                f"objective.kind = {self.name!r}: no known layout of this model has such a head: "
                "start from another model"
            )
        return self.choose_head(recipe, heads)

    def choose_head(self, recipe: RecipeFields, heads: list[TaskConfig]) -> TaskConfig:
        return heads[0]

    def evaluator(
        self, recipe: RecipeFields, paths: RunPaths, tokenizer: Tokenizer,
        files: Mapping[str, bytes], **options: Any,
    ) -> Evaluator | None:  # fmt: skip
        documents = list(self.read(recipe, paths.silent, "valid"))
        names = self.metric_names(recipe, paths.labels, documents)
        pool = self.pool(recipe, files)
        return LabelledEvaluator(self, tokenizer, documents, paths.labels, names, pool)

    def pool(self, recipe: RecipeFields, files: Mapping[str, bytes]) -> str:
        """How token vectors become one vector: as the recipe says, or as the model's files do."""
        from glassformer.inference import embedding_config

        return recipe.objective.pool or embedding_config(files, str(recipe.init_from)).pool[0]


@dataclass(frozen=True)
class LabelledEvaluator:
    objective: LabelledObjective
    tokenizer: Tokenizer
    documents: list[Document]
    labels: tuple[str, ...]
    names: tuple[str, ...]  # of the metrics
    pool: str = "mean"

    def metrics(self, task: Task) -> dict[str, float]:
        values = self.report(task)
        return {name: values[name] for name in self.names}

    def report(self, task: Task) -> dict[str, Any]:
        """The metrics, and those of each class."""
        training = task.training
        task.eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # truncation was reported before
            values = self.objective.metrics(
                task, self.tokenizer, self.documents, self.labels, self.pool
            )
        task.train(training)
        return {name: values[name] for name in (*self.names, *DETAILS) if name in values}


class TableObjective(LabelledObjective):
    """Texts and labels in the columns of a table."""

    needs_label: ClassVar[bool] = True
    columns: ClassVar[Columns]  # of rows that are tuples

    def as_file(self, value: Any, name: str) -> tuple[str, str]:
        return ".jsonl", as_jsonl(records(value, name, self.columns))

    def raw(self, recipe: RecipeFields, path: Path, bad: Bad = stop) -> Iterator[Raw]:
        return examples(path, self.table(recipe, path), bad)

    def table(self, recipe: RecipeFields, path: Path) -> TableColumns:
        return columns_of(recipe, path, needs_label=self.needs_label)

    def log_guess(self, recipe: RecipeFields, path: Path, log: Log) -> TableColumns:
        """The columns; those that the recipe does not name are logged."""
        table = self.table(recipe, path)
        if table.text != recipe.data.text or (self.needs_label and not recipe.data.label):
            log(f"{path}: {table}")
        return table


def label_counts(store: Store) -> dict[str, int]:
    """How many examples of each class there are; empty without classes."""
    labels = store.meta.labels
    if len(labels) < 2:
        return {}
    numbers = store["several" if "several" in store.columns else "labels"].row
    return dict(zip(labels, np.bincount(numbers[numbers >= 0], minlength=len(labels)).tolist(),
                    strict=True))  # fmt: skip


def describe_counts(counts: Mapping[str, int]) -> Iterator[str]:
    """The classes with their numbers, and what may be a mistake among them, a line each."""
    if not counts:
        return
    ranked = sorted(counts, key=lambda label: -counts[label])
    shown = [f"{counts[label]:,} {label}" for label in ranked[:MOST_SHOWN]]
    more = len(ranked) - len(shown)
    yield f"{len(ranked):,} labels: {', '.join(shown)}{f' and {more:,} more' if more else ''}"
    for few, what in ((0, "no example"), (1, "only one example")):
        rare = [repr(label) for label in ranked if counts[label] == few]
        if rare:
            yield f"{what} of {', '.join(rare[:MOST_SHOWN])}"
    folded: dict[str, list[str]] = {}
    for label in counts:
        folded.setdefault(label.casefold(), []).append(label)
    for same in folded.values():
        if len(same) > 1:
            yield f"{' and '.join(map(repr, same))} differ only in case: are they the same label?"


Encode = Callable[[Any], Document]


def columns_of(recipe: RecipeFields, path: Path, *, needs_label: bool) -> TableColumns:
    """The columns that the recipe names, or those that look right."""
    data = recipe.data
    table = TableColumns(
        data.text or "", data.text_pair, data.label, data.header or None, data.separator,
        data.label_prefix_separator, data.label_separator, encoding=data.encoding,
    )  # fmt: skip
    complete = table.text and (table.label or not needs_label)
    return table if complete else guessed(path, table, labelled=needs_label)


def split_table(recipe: RecipeFields, path: Path, part: str, log: Log) -> Iterator[Document]:
    """The texts of a table, without their labels."""

    def read(recipe: RecipeFields, path: Path, bad: Bad) -> Iterator[Raw]:
        return examples(path, columns_of(recipe, path, needs_label=False), bad)

    return split(recipe, path, part, read, lambda raw: LabelledText(raw.texts), log)


def split(
    recipe: RecipeFields, path: Path, part: str,
    read: Callable[[RecipeFields, Path, Bad], Iterator[Raw]], encode: Encode, log: Log,
) -> Iterator[Document]:  # fmt: skip
    """The documents of one part. Which part a text is in depends on the text alone."""
    data = recipe.data
    with BadRows(path, data.skip_bad, log) as bad:
        for raw in read(recipe, path, bad):
            try:
                document = encode(raw)
            except InputError as error:
                bad(error)
                continue
            if not data.splits or _is_held(raw, document, recipe) == (part == "valid"):
                yield document


def _is_held(raw: Raw, document: Document, recipe: RecipeFields) -> bool:
    low, high = recipe.data.held
    if recipe.data.fold_by == "text":
        # All questions about a context stay together.
        key = texts_of(document)[1 if isinstance(document, Question) else 0]
        return in_range(plain(key), low, high)
    place = raw.place if isinstance(raw, Example) else None
    if place is None:
        raise ConfigError(
            f"data.fold_by = 'name': {recipe.data.train} has no folder of files for each label: "
            "leave it out"
        )
    return low <= place < high
