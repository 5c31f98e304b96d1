"""What every objective defines. Each objective is a module of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from glassformer.config import Family, ModelConfig, TaskConfig, TaskKind
from glassformer.data.dataset import NO_LABEL, Dataset
from glassformer.data.label_alignment import Document
from glassformer.data.prepare import StoreKind
from glassformer.data.run_paths import RunPaths
from glassformer.data.special_tokens import SpecialTokenTemplate
from glassformer.data.store import Store
from glassformer.errors import ConfigError, check_installed
from glassformer.fields import DataConfig, RecipeFields
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch
    from glassformer.tasks import LossSum, Task

Losses = Callable[["Batch"], "Mapping[str, LossSum]"]


class Evaluator(Protocol):
    """Uses the model on validation data and computes metrics: higher is better."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def metrics(self, task: Task) -> dict[str, float]: ...


@dataclass(frozen=True)
class ShortForm:
    """`glassformer finetune` without a recipe: longest text, and tokens of a micro-batch."""

    length: int
    micro_batch_tokens: int


@dataclass(frozen=True)
class DatasetParts:
    """What a dataset is made of, besides the fields of the recipe."""

    store: Store
    tokenizer: Tokenizer
    task: Task
    seed: int  # -1 for validation data
    source: str  # the recipe's file, for errors

    def common(self, length: int) -> tuple[Store, SpecialTokenTemplate, int, int, int]:
        """The first fields of every dataset."""
        template = SpecialTokenTemplate.of(self.tokenizer)
        return self.store, template, length, self.task.backbone.config.ids.pad or 0, self.seed


class Objective(ABC):
    """Abstract; every child is final, and its module is named like `name`."""

    name: ClassVar[str]
    family: ClassVar[Family]  # of the model
    task: ClassVar[TaskKind]  # its head and loss: see tasks/
    preset: ClassVar[str]  # the model, where the recipe has none
    example_data: ClassVar[tuple[str, str]]  # of a new recipe: a path, and what is in it
    fields: ClassVar[tuple[str, ...]]  # of the recipe that only some objectives read
    best_by: ClassVar[tuple[str, ...]] = ()  # metrics that can choose the best checkpoint
    labelled: ClassVar[bool] = False  # learns from labels, not from text alone
    reads_windows: ClassVar[bool] = False  # texts of any length: long ones are read in parts
    packages: ClassVar[tuple[str, ...]] = ()  # of the extra `metrics`, to evaluate
    short_form: ClassVar[ShortForm | None] = None
    per_document: ClassVar[bool] = False  # every token has a label: loss and bits of a document
    sides: ClassVar[int] = 1  # rows of tokens in a batch: 2 for source and target

    def check(self, recipe: RecipeFields) -> None:  # noqa: B027
        """Raise ValueError where fields of the recipe contradict each other."""

    def check_packages(self) -> None:
        if self.packages:
            check_installed(f"objective.kind = {self.name!r}", "metrics", *self.packages)

    # ---------------------------------------------------------------------------------- the data

    @abstractmethod
    def documents(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[Document]:
        """The documents of "train" or "valid"."""

    def read(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[Document]:
        """Like `documents`, but an error if there are none."""
        empty = True
        for document in self.documents(recipe, paths, part):
            empty = False
            yield document
        if empty:
            path = paths.data(recipe.data.part(part)[0].train)
            raise ConfigError(f"{path}: {_nothing(recipe.data, part)}")

    @abstractmethod
    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        """Which columns the prepared data has."""

    @abstractmethod
    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset: ...

    def labels(self, recipe: RecipeFields, paths: RunPaths) -> tuple[str, ...]:
        """The names of the classes, by number; empty without classes."""
        return ()

    # --------------------------------------------------------------------------------- the model

    def accepts(self, config: ModelConfig) -> bool:
        """Whether a model of this family can be trained on."""
        return config.family == self.family

    def task_config(
        self, recipe: RecipeFields, config: ModelConfig, labels: Sequence[str]
    ) -> TaskConfig:
        """The head on this backbone."""
        return TaskConfig(kind=self.task, bias=False)

    def check_initial(self, recipe: RecipeFields) -> None:  # noqa: B027
        """As `check`, once the initial model can be looked at."""

    def keeps_head(self, recipe: RecipeFields, head: TaskConfig, target: TaskConfig) -> bool:
        """Whether the head of the initial model is the one to train on."""
        return (head.kind, head.labels) == (target.kind, target.labels)

    def wrap(self, recipe: RecipeFields, task: Task, files: Mapping[str, bytes]) -> Task:
        """The task that is trained; `files` are those beside the model."""
        return task

    def model_files(
        self, recipe: RecipeFields, files: Mapping[str, bytes], width: int
    ) -> dict[str, bytes]:
        """The files that are written beside the weights."""
        from glassformer.inference.sentence_files import is_sentence_file

        return {name: data for name, data in files.items() if not is_sentence_file(name)}

    # ------------------------------------------------------------------------------ the training

    def losses(self, recipe: RecipeFields, task: Task, dataset: Dataset) -> Losses | None:
        """Losses other than the task's own; None: the task's."""
        return None

    def evaluator(
        self, recipe: RecipeFields, paths: RunPaths, tokenizer: Tokenizer,
        files: Mapping[str, bytes], **options: Any,
    ) -> Evaluator | None:  # fmt: skip
        """Computes metrics on the validation data; None if the loss is enough."""
        return None

    def describe_labels(
        self, batch: Batch, number: int, spec: TaskConfig, piece: Callable[[int], str]
    ) -> str | dict[int, str]:
        """The label of one text of a batch, or those of its tokens by their positions in the row.

        `piece` spells a token id.
        """
        return token_labels(batch, piece)

    def label_share(self, recipe: RecipeFields) -> float:
        """The share of tokens that have a label, for an estimate of memory."""
        return 1.0

    def probe(self, recipe: RecipeFields, task: Task, tokens: int, texts: int) -> dict[str, Tensor]:
        """Labels of a batch of zeros, to measure the memory of a step."""
        import torch

        return {"labels": torch.zeros(tokens, dtype=torch.long)}


def token_labels(batch: Batch, name: Callable[[int], str]) -> dict[int, str]:
    """The labels of a batch's tokens by position; `name` spells a label."""
    if batch.labels is None:
        return {}
    at = batch.label_positions
    positions = range(len(batch.tokens)) if at is None else at.tolist()
    labels = zip(positions, batch.labels.tolist(), strict=True)
    return {position: name(label) for position, label in labels if label != NO_LABEL}


def _nothing(data: DataConfig, part: str) -> str:
    purpose = "evaluate on" if part == "valid" else "train on"
    if not data.splits:
        return f"there is nothing in it to {purpose}: write another file"
    if data.fold is not None:
        return f"with data.fold = {data.fold!r} there is nothing to {purpose}: write fewer folds"
    return (
        f"with data.valid_fraction = {data.valid_fraction} there is nothing to {purpose}: write "
        "another fraction, or data.valid"
    )
