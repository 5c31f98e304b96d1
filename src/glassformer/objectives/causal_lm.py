"""Causal language modelling: predict every token from those before it, in its own document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glassformer.data.dataset import (
    NO_LABEL,
    BatchShape,
    Dataset,
    Ragged,
    Skipped,
    fill,
    make_batch,
    pack,
    read_in_parts,
)  # fmt: skip
from glassformer.data.packing import Numbers, Samples, windows
from glassformer.data.prepare import StoreKind
from glassformer.data.run_paths import RunPaths
from glassformer.data.store import places
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts
from glassformer.objectives.plain_text import FIELDS, PlainTextObjective

if TYPE_CHECKING:
    from glassformer.model import Batch


@dataclass(frozen=True)
class CausalLMDataset(Dataset):
    def samples(self, epoch: int) -> Samples:
        offsets = self.store["tokens"].offsets
        return windows(offsets, self.length + 1, overlap=1, seed=self.seed, epoch=epoch)

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] - 1

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        column, sizes = self.store["tokens"], samples.first[:, 1] - 1
        where = places(np.stack([samples.first[:, 0], sizes], 1))
        tokens, sequences = pack(Ragged(column.at(where), sizes), shape, self.pad)
        labels = fill(column.at(where + 1), len(tokens), NO_LABEL)
        return make_batch(tokens, sequences, labels=labels)

    def skipped(self) -> list[Skipped]:
        single = np.diff(self.store["tokens"].offsets) < 2
        reason = "documents with no token to predict, skipped"
        return [read_in_parts(self.store, self.length), Skipped(int(single.sum()), reason)]


class CausalLMObjective(PlainTextObjective):
    name, family, task, preset = "causal_lm", "decoder", "causal_lm", "gpt2"
    example_data = ("texts", "a file or folder of text; a blank line ends a document")
    fields = FIELDS
    reads_windows = True
    per_document = True

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        return "text"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        return CausalLMDataset(*parts.common(recipe.objective.length))


OBJECTIVE = CausalLMObjective()
