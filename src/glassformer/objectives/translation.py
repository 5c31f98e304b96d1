"""Translation: predict every token of the target from those before it and the whole source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

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
    spans,
    take,
)  # fmt: skip
from glassformer.data.label_alignment import Document
from glassformer.data.packing import Numbers, Samples
from glassformer.data.prepare import StoreKind
from glassformer.data.readers import parallel
from glassformer.data.readers.files import skip_or_stop
from glassformer.data.run_paths import RunPaths
from glassformer.data.special_tokens import SpecialTokenTemplate, end_of_text
from glassformer.data.split import Pair, split_pairs
from glassformer.errors import counted
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts, Evaluator, Objective
from glassformer.objectives.plain_text import text_path
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from glassformer.model import Batch


@dataclass(frozen=True)
class TranslationDataset(Dataset):
    start: int  # what the decoder reads before the first token
    end: tuple[int, ...]
    smoothing: float = 0.0

    def samples(self, epoch: int) -> Samples:
        source, target = (spans(self.store[name]) for name in ("source", "target"))
        longest = np.maximum(source[:, 1] + self.template.width, target[:, 1] + len(self.end))
        fits = (longest <= self.length) & (source[:, 1] > 0) & (target[:, 1] > 0)
        return Samples(source[fits], target[fits])

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        source = samples.first[:, 1] + self.template.width
        return np.stack([source, samples.second[:, 1] + len(self.end)], 1)

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None  # noqa: S101
        source = take(self.store["source"], samples.first)
        target = take(self.store["target"], samples.second)
        read = concatenate(self.template.before, source, self.template.after)
        labels, sizes = concatenate(target, self.end)
        shifted = np.roll(labels, 1)  # each token is predicted from the one before it
        shifted[sizes.cumsum() - sizes] = self.start
        tokens, sequences = pack(Ragged(shifted, sizes), shape, self.pad)
        return make_batch(
            tokens,
            sequences,
            source=make_batch(*pack(read, shape, self.pad)),
            labels=fill(labels, len(tokens), NO_LABEL),
            smoothing=self.smoothing,
        )

    def skipped(self) -> list[Skipped]:
        source, target = (np.diff(self.store[name].offsets) for name in ("source", "target"))
        empty = int(((source == 0) | (target == 0)).sum())
        too_long = self.store.documents - empty - len(self.samples(0))
        reason = f"pairs with a side of more than {self.length} tokens, skipped"
        return [
            Skipped(empty, "pairs with an empty side, skipped"),
            Skipped(too_long, reason, too_long=True),
        ]


class TranslationObjective(Objective):
    name, family, task, preset = "translation", "seq2seq", "translation", "marian-base"
    example_data = ("pairs.tsv", "a sentence, a tab and its translation in each line")
    fields = (
        "objective.label_smoothing", "train.bleu_sentences", "data.languages", "data.more",
    )  # fmt: skip
    best_by = ("bleu", "chrf")
    sides = 2

    def check(self, recipe: RecipeFields) -> None:
        by = recipe.train.best_by
        if by in self.best_by and not recipe.train.bleu_sentences:
            raise ValueError(
                f"train.best_by = {by!r} needs translations: write how many sentences in "
                "train.bleu_sentences, such as 500"
            )

    def documents(self, recipe: RecipeFields, paths: RunPaths, part: str) -> Iterator[Document]:
        data = recipe.data
        share = 0.0 if data.valid is not None else data.valid_fraction

        def read() -> Iterator[Pair]:
            languages = cast("tuple[str, str] | None", data.languages or None)
            for source in data.part(part):
                path = text_path(paths, source)
                with skip_or_stop(path, data.skip_bad, paths.log) as bad:
                    yield from parallel.pairs(path, None, languages, bad, data.encoding)

        def log(count: int) -> None:
            paths.log(f"{counted(count, 'pairs')} left out: a text of the validation data is in it")

        if share > 0.0:
            return split_pairs(read, share, held=part == "valid", report=log)
        return read()

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        return "pairs"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        ids = parts.task.backbone.config.ids
        end = end_of_text(parts.tokenizer, SpecialTokenTemplate.of(parts.tokenizer))
        smoothing = recipe.objective.label_smoothing if parts.seed >= 0 else 0.0
        start = ids.start or ids.pad or 0
        return TranslationDataset(*parts.common(recipe.objective.length), start, end, smoothing)

    def task_config(
        self, recipe: RecipeFields, config: ModelConfig, labels: Sequence[str]
    ) -> TaskConfig:
        return TaskConfig(kind=self.task, bias=config.position != "relative")  # T5 has no bias

    def evaluator(
        self, recipe: RecipeFields, paths: RunPaths, tokenizer: Tokenizer,
        files: Mapping[str, bytes], *, sentences: int | None = None, **search: Any,
    ) -> Evaluator | None:  # fmt: skip
        """BLEU and chrF of translated validation sentences: all of them, or so many."""
        from glassformer.evaluation.translation import Examples, TranslationEvaluator

        pairs = cast("Iterator[Pair]", self.read(recipe, paths.silent, "valid"))
        return TranslationEvaluator(tokenizer, Examples.of(pairs, sentences), search)


OBJECTIVE = TranslationObjective()
