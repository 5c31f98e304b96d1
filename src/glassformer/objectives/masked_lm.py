"""Masked language modelling: predict hidden tokens from both sides, as BERT and RoBERTa do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glassformer.config import ModelConfig, TaskConfig
from glassformer.data.dataset import (
    NO_LABEL,
    BatchShape,
    Dataset,
    Ragged,
    Skipped,
    concatenate,
    fill,
    make_batch,
    pack,
    read_in_parts,
    take,
)  # fmt: skip
from glassformer.data.masking import Masking
from glassformer.data.packing import Numbers, Samples, windows
from glassformer.data.prepare import StoreKind
from glassformer.data.run_paths import RunPaths
from glassformer.data.special_tokens import MASK, find_id
from glassformer.errors import ConfigError
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts
from glassformer.objectives.plain_text import FIELDS, PlainTextObjective

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch
    from glassformer.tasks import Task

MASKING_FIELDS = ("objective.mask_rate", "objective.mask_unit")


@dataclass(frozen=True)
class MaskedDataset(Dataset):
    """The base of both masked objectives."""

    masking: Masking

    def hide(self, row: Ragged, starts: Numbers, epoch: int, shape: BatchShape | None) -> Batch:
        """The row with some tokens hidden; `starts` tells each text's place in the data."""
        values, sizes = row
        text = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(values)) + np.repeat(starts - (sizes.cumsum() - sizes), sizes)
        hidden, chosen = self.masking(values, text, place, self.seed, epoch)
        tokens, sequences = pack(Ragged(hidden, sizes), shape, self.pad)
        most = len(chosen) if shape is None else shape.label_positions
        return make_batch(
            tokens,
            sequences,
            labels=fill(values[chosen], most, NO_LABEL),
            label_positions=fill(chosen, most, 0),
        )

    def label_positions(self, budget: int, texts: int) -> int:
        return self.masking.most(budget, texts)


@dataclass(frozen=True)
class MaskedLMDataset(MaskedDataset):
    def samples(self, epoch: int) -> Samples:
        inside = self.length - self.template.width
        # The template ends texts: the end token that the store keeps is left out.
        offsets, end = self.store["tokens"].offsets, len(self.store.end)
        return windows(offsets, inside, overlap=0, seed=self.seed, epoch=epoch, without=end)

    def costs(self, samples: Samples) -> Numbers:
        return samples.first[:, 1] + self.template.width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        text = take(self.store["tokens"], samples.first)
        row = concatenate(self.template.before, text, self.template.after)
        return self.hide(row, samples.first[:, 0], epoch, shape)

    def skipped(self) -> list[Skipped]:
        return [read_in_parts(self.store, self.length - self.template.width)]


class MaskedObjective(PlainTextObjective):
    """What both masked objectives share."""

    def task_config(
        self, recipe: RecipeFields, config: ModelConfig, labels: Sequence[str]
    ) -> TaskConfig:
        return TaskConfig(kind=self.task, bias=True)

    def label_share(self, recipe: RecipeFields) -> float:
        return recipe.objective.mask_rate

    def probe(self, recipe: RecipeFields, task: Task, tokens: int, texts: int) -> dict[str, Tensor]:
        import torch

        count = int(recipe.objective.mask_rate * tokens) + texts
        return {
            "labels": torch.zeros(count, dtype=torch.long),
            "label_positions": torch.arange(count),
        }


class MaskedLMObjective(MaskedObjective):
    name, family, task, preset = "masked_lm", "encoder", "masked_lm", "bert-tiny"
    example_data = ("texts", "a file or folder of text; a blank line ends a document")
    fields = (*FIELDS, *MASKING_FIELDS)
    reads_windows = True

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        return "text"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        return MaskedLMDataset(*parts.common(recipe.objective.length), masking(recipe, parts))


def masking(recipe: RecipeFields, parts: DatasetParts) -> Masking:
    tokenizer, vocab = parts.tokenizer, parts.task.backbone.config.vocab_size
    mask = find_id(tokenizer, MASK)
    if mask is None:
        raise ConfigError(
            f"{parts.source}: the tokenizer has no mask token, which objective.kind = "
            f"{recipe.objective.kind!r} needs: choose another tokenizer"
        )
    special, last = set(tokenizer.backend.get_added_tokens_decoder()), tokenizer.highest
    pieces = [tokenizer.token(i) for i in range(vocab)]
    return Masking(
        recipe.objective.mask_rate,
        recipe.objective.mask_unit,
        mask,
        vocab,
        forbidden=np.array([i in special or i > last for i in range(vocab)]),
        begins=np.array(_word_starts(pieces)),
    )


def _word_starts(pieces: list[str]) -> list[bool]:
    """WordPiece marks continuations, byte-level BPE and Unigram beginnings; others are words."""
    if any(piece.startswith("##") for piece in pieces):
        return [not piece.startswith("##") for piece in pieces]
    marked = [piece[:1] in ("Ġ", "▁") for piece in pieces]
    return marked if any(marked) else [True] * len(pieces)


OBJECTIVE = MaskedLMObjective()
