"""Sentence embedding: two texts get similar vectors, as similar as their value says, or more
similar to each other than to all other texts of the row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

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
    spans,
    take,
)  # fmt: skip
from glassformer.data.label_alignment import Document, LabelledText
from glassformer.data.packing import Numbers, Samples
from glassformer.data.prepare import StoreKind
from glassformer.data.readers.examples import Example, value_of
from glassformer.data.run_paths import RunPaths
from glassformer.errors import ConfigError
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts, ShortForm
from glassformer.objectives.labelled import TABLE_FIELDS, TableObjective
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch
    from glassformer.tasks import Task


@dataclass(frozen=True)
class SentenceEmbeddingDataset(Dataset):
    """Texts 2 i and 2 i + 1 of a batch are pair i."""

    texts_per_sample: ClassVar[int] = 2

    def samples(self, epoch: int) -> Samples:
        first, second = spans(self.store["tokens"]), spans(self.store["second"])
        longest = np.maximum(first[:, 1], second[:, 1]) + self.template.width
        fits = (longest <= self.length) & (first[:, 1] > 0) & (second[:, 1] > 0)
        return Samples(first[fits], second[fits])

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        return samples.first[:, 1] + samples.second[:, 1] + 2 * self.template.width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None  # noqa: S101
        before, after = self.template.before, self.template.after
        a = concatenate(before, take(self.store["tokens"], samples.first), after)
        b = concatenate(before, take(self.store["second"], samples.second), after)
        row, sizes = concatenate(a, b).values, np.stack([a.sizes, b.sizes], 1).reshape(-1)
        tokens, sequences = pack(Ragged(row, sizes), shape, self.pad)
        labels: npt.NDArray[Any] = np.arange(len(samples))
        if "values" in self.store.columns:
            labels = self.store["values"].row[owners(self.store["tokens"], samples.first)]
        targets = fill(labels, sequences.count // 2, NO_LABEL)
        return make_batch(tokens, sequences, labels=targets)

    def skipped(self) -> list[Skipped]:
        count = self.store.documents - len(self.samples(0))
        reason = f"pairs with a side of more than {self.length} tokens, skipped"
        return [Skipped(count, reason, too_long=True)]


class SentenceEmbeddingObjective(TableObjective):
    name, family, task, preset = "sentence_embedding", "encoder", "features", "bert-tiny"
    example_data = ("pairs.tsv", "a table with two texts, and perhaps a score, in each row")
    fields = (*TABLE_FIELDS, "objective.scale", "objective.symmetric", "objective.max_score")
    best_by = ("spearman", "pearson", "accuracy")
    short_form = ShortForm(length=128, micro_batch_tokens=2048)
    needs_label = False
    columns = MappingProxyType({2: ("text1", "text2"), 3: ("text1", "text2", "score")})

    def check(self, recipe: RecipeFields) -> None:
        pool = recipe.objective.pool
        if pool in DOCUMENTS:
            raise ValueError(
                f"objective.pool = {pool!r} is for objective.kind = 'classification': write "
                "'first', 'last' or 'mean'"
            )

    def labels(self, recipe: RecipeFields, paths: RunPaths) -> tuple[str, ...]:
        """The name of the column of similarities, if there is one."""
        self.all_labels(recipe, paths)  # a bad row fails now, not after the tokenizer is trained
        table = self.log_guess(recipe, paths.data(recipe.data.train), paths.log)
        return () if table.label is None else (table.label,)

    def encode_labels(self, recipe: RecipeFields, raw: Example, labels: Any) -> Document:
        if len(raw.texts) != 2:
            raise ConfigError(
                f"{raw.where}: objective.kind = {self.name!r} needs two texts: write in "
                "data.text_pair the column of the other one"
            )
        if raw.label is None:
            return LabelledText(raw.texts)
        value = value_of(raw.label, raw.where, recipe.data.label or "label")
        return LabelledText(raw.texts, value / recipe.objective.max_score)

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        table = self.table(recipe, paths.data(recipe.data.train))
        return "alike" if table.label is None else "value_pairs"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        return SentenceEmbeddingDataset(*parts.common(recipe.objective.length))

    def wrap(self, recipe: RecipeFields, task: Task, files: Mapping[str, bytes]) -> Task:
        from glassformer.tasks import Features, SentenceEmbedding

        assert isinstance(task, Features)  # noqa: S101
        options = recipe.objective
        how = self.pool(recipe, files)
        return SentenceEmbedding(
            task, pooling=how, scale=options.scale, symmetric=options.symmetric
        ).train()

    def pool(self, recipe: RecipeFields, files: Mapping[str, bytes]) -> str:
        from glassformer.inference import embedding_config

        config = embedding_config(files, str(recipe.init_from))
        if recipe.objective.pool is None and (config.layers or config.pool[1:]):
            parts = [*config.pool, *(module.path for module in config.layers)]
            raise ConfigError(
                f"init_from = {recipe.init_from!r} pools by {', '.join(parts)}, which cannot be "
                "trained: write objective.pool = 'mean' to train without them"
            )
        return super().pool(recipe, files)

    def model_files(
        self, recipe: RecipeFields, files: Mapping[str, bytes], width: int
    ) -> dict[str, bytes]:
        from glassformer.inference.sentence_files import sentence_files

        return sentence_files(files, self.pool(recipe, files), recipe.objective.length, width)

    def metric_names(
        self, recipe: RecipeFields, labels: Sequence[str], documents: Sequence[Any] = ()
    ) -> tuple[str, ...]:
        valued = documents[0].label is not None if documents else bool(labels)
        return ("spearman", "pearson") if valued else ("accuracy",)

    def metrics(
        self, task: Task, tokenizer: Tokenizer, documents: Sequence[LabelledText],
        labels: Sequence[str], pool: str,
    ) -> dict[str, float]:  # fmt: skip
        import torch

        from glassformer.evaluation import metrics
        from glassformer.inference import EmbeddingConfig, cosines, embed

        config = EmbeddingConfig(pool=(pool,), normalise=True)
        first, second = (
            embed(task, tokenizer, side, recipe=config).cpu()
            for side in zip(*(each.texts for each in documents), strict=True)
        )
        if documents[0].label is not None:
            values = torch.tensor([each.label for each in documents], dtype=torch.float32)
            return metrics.of_values((first * second).sum(-1), values)
        chosen = cosines(first, second).argmax(-1)
        return metrics.of_classes(chosen, torch.arange(len(documents)), max(3, len(documents)))

    def describe_labels(
        self, batch: Batch, number: int, spec: TaskConfig, piece: Callable[[int], str]
    ) -> str | dict[int, str]:
        assert batch.labels is not None  # noqa: S101
        label = batch.labels[number // 2]  # of the pair
        return f"{label:.4g}" if label.is_floating_point() else f"pair {label}"

    def probe(self, recipe: RecipeFields, task: Task, tokens: int, texts: int) -> dict[str, Tensor]:
        import torch

        return {"labels": torch.arange(texts // 2)}


OBJECTIVE = SentenceEmbeddingObjective()
