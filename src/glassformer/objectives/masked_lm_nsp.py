"""BERT's own objective: masked tokens, and whether the second text follows the first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from glassformer.data.dataset import (
    NO_LABEL,
    BatchShape,
    Dataset,
    Skipped,
    choose,
    concatenate,
    fill,
    segment_ids,
    take,
)  # fmt: skip
from glassformer.data.packing import Numbers, Samples
from glassformer.data.prepare import StoreKind
from glassformer.data.run_paths import RunPaths
from glassformer.data.sentence_pairs import sentence_pairs, sentence_starts
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts
from glassformer.objectives.masked_lm import (
    MASKING_FIELDS,
    MaskedDataset,
    MaskedObjective,
    masking,
)  # fmt: skip
from glassformer.objectives.plain_text import FIELDS

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch
    from glassformer.tasks import Task


@dataclass(frozen=True)
class MaskedLMNSPDataset(MaskedDataset):
    sentence_order: bool = False
    short_pair_fraction: float = 0.1

    def samples(self, epoch: int) -> Samples:
        starts, document = sentence_starts(self.store["tokens"], self.store["sentences"])
        inside = self.length - self.template.pair_width
        return sentence_pairs(
            starts, document, inside, self.sentence_order, self.short_pair_fraction,
            seed=self.seed, epoch=epoch,
        )  # fmt: skip

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        single = samples.second[:, 1] == 0
        width = np.where(single, self.template.width, self.template.pair_width)
        return samples.first[:, 1] + samples.second[:, 1] + width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None and samples.follows is not None  # noqa: S101
        template, column = self.template, self.store["tokens"]
        a, b = (take(column, each) for each in (samples.first, samples.second))
        single = samples.second[:, 1] == 0
        between = choose(single, template.after, template.between)
        closing = choose(single, (), template.closing)
        row = concatenate(template.before, a, between, b, closing)
        # The same first text may come twice, beside different second ones: both decide the masks.
        starts = samples.first[:, 0] * 8191 + samples.second[:, 0]
        batch = self.hide(row, starts, epoch, shape)
        second, size = b.sizes + closing.sizes, len(batch.tokens)
        return replace(
            batch,
            segments=segment_ids(template, row.sizes, second, size),
            next_sentence_labels=fill(samples.follows, batch.sequences.count, NO_LABEL),
        )

    def skipped(self) -> list[Skipped]:
        starts, document = sentence_starts(self.store["tokens"], self.store["sentences"])
        room = self.length - self.template.pair_width
        near = np.diff(document) == 0  # a sentence behind it in the same document …
        fits = near & (starts[2:] - starts[:-2] <= room)  # … and both fit
        paired, fitting = (np.append(a, False) | np.append(False, a) for a in (near, fits))
        single = np.bincount(document)[document] == 1
        long = np.diff(starts)[single] > room
        too_long = f"sentences too long for a pair of {self.length} tokens, skipped"
        return [
            Skipped(int(single.sum()), "documents of one sentence, without a pair"),
            Skipped(int((paired & ~fitting).sum()), too_long, too_long=True),
            Skipped(int(long.sum()), "of one sentence too long for the model, cut", too_long=True),
        ]

    def unused(self) -> list[Skipped]:
        samples = self.samples(0)
        covered = np.zeros(len(self.store["tokens"]) + 1, dtype=np.int64)
        for texts in (samples.first, samples.second):
            if texts is not None:
                np.add.at(covered, texts[:, 0], 1)
                np.add.at(covered, texts.sum(1), -1)
        count = int((covered.cumsum()[:-1] == 0).sum())
        return [Skipped(count, "tokens in no pair (in the first epoch)")]


class MaskedLMNSPObjective(MaskedObjective):
    name, family, task, preset = "masked_lm_nsp", "encoder", "masked_lm_nsp", "bert-tiny"
    example_data = ("texts", "a file or folder of text; a blank line ends a document")
    fields = (
        *FIELDS, *MASKING_FIELDS, "objective.sentence_order", "objective.short_pair_fraction",
    )  # fmt: skip

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        return "sentences"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        options = recipe.objective
        return MaskedLMNSPDataset(
            *parts.common(options.length), masking(recipe, parts), options.sentence_order,
            options.short_pair_fraction,
        )  # fmt: skip

    def probe(self, recipe: RecipeFields, task: Task, tokens: int, texts: int) -> dict[str, Tensor]:
        import torch

        pairs = {"next_sentence_labels": torch.zeros(texts, dtype=torch.long)}
        return super().probe(recipe, task, tokens, texts) | pairs


OBJECTIVE = MaskedLMNSPObjective()
