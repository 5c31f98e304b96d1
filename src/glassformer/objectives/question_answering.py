"""Extractive question answering: the first and the last token of the answer in a context."""

from __future__ import annotations

import json
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
    fill,
    make_batch,
    owners,
    pack,
    pair_row,
    segment_ids,
    spans,
    take,
)  # fmt: skip
from glassformer.data.label_alignment import Document
from glassformer.data.packing import Numbers, Samples
from glassformer.data.prepare import StoreKind
from glassformer.data.readers.files import Bad, stop
from glassformer.data.readers.squad import Question, questions
from glassformer.data.records import Row, pick, records
from glassformer.data.run_paths import RunPaths
from glassformer.errors import InputError, shown
from glassformer.fields import RecipeFields
from glassformer.objectives.base import DatasetParts, ShortForm
from glassformer.objectives.labelled import FIELDS, LabelledObjective, Raw
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.model import Batch
    from glassformer.tasks import Task


@dataclass(frozen=True)
class QuestionAnsweringDataset(Dataset):
    """A long context is read in windows that share `overlap` tokens; in a window without the
    answer the label is the first token, [CLS]."""

    overlap: int

    def samples(self, epoch: int) -> Samples:
        asked, contexts = spans(self.store["question"]), spans(self.store["tokens"])
        room = self._room(asked)
        step = np.maximum(1, room - np.minimum(self.overlap, room // 2))
        counts = 1 + np.maximum(0, -(-(contexts[:, 1] - room) // step))
        counts = np.where((room > 0) & (asked[:, 1] > 0) & (contexts[:, 1] > 0), counts, 0)
        owner = np.repeat(np.arange(len(asked)), counts)
        number = np.arange(len(owner)) - np.repeat(counts.cumsum() - counts, counts)
        start = number * step[owner]
        size = np.minimum(contexts[owner, 1] - start, room[owner])
        return Samples(asked[owner], np.stack([contexts[owner, 0] + start, size], 1))

    def _room(self, asked: Numbers) -> Numbers:
        """For the context, beside the question."""
        return self.length - self.template.pair_width - asked[:, 1]

    def costs(self, samples: Samples) -> Numbers:
        assert samples.second is not None  # noqa: S101
        return samples.first[:, 1] + samples.second[:, 1] + self.template.pair_width

    def batch(self, samples: Samples, epoch: int, shape: BatchShape | None) -> Batch:
        assert samples.second is not None  # noqa: S101
        template, store = self.template, self.store
        context = take(store["tokens"], samples.second)
        row = pair_row(template, take(store["question"], samples.first), context)
        tokens, sequences = pack(row, shape, self.pad)
        owner = owners(store["question"], samples.first)
        answers = store["labels"].row.reshape(-1, 2)[owner]
        start = samples.second[:, 0] - store["tokens"].offsets[owner]
        inside = (answers[:, 0] >= start) & (answers[:, 1] < start + samples.second[:, 1])
        lead = len(template.before) + samples.first[:, 1] + len(template.between)
        nowhere = 0 if template.before else NO_LABEL
        ends = np.where(inside[:, None], answers + (lead - start)[:, None], nowhere)
        labels = fill(ends.reshape(-1), 2 * sequences.count, NO_LABEL).reshape(-1, 2)
        second = context.sizes + len(template.closing)
        segments = segment_ids(template, row.sizes, second, len(tokens))
        return make_batch(tokens, sequences, segments=segments, labels=labels)

    def skipped(self) -> list[Skipped]:
        asked, contexts = spans(self.store["question"]), spans(self.store["tokens"])
        room = self._room(asked)
        windows = f"contexts that do not fit {self.length} tokens, read in windows"
        crowded = "questions without room for a context, skipped"
        return [
            Skipped(int(((contexts[:, 1] > room) & (room > 0)).sum()), windows, too_long=True),
            Skipped(int((room <= 0).sum()), crowded, too_long=True),
        ]


class QuestionAnsweringObjective(LabelledObjective):
    name, family, task = "question_answering", "encoder", "question_answering"
    preset = "bert-tiny"
    example_data = ("train.json", "questions, contexts and answers in the format of SQuAD")
    fields = (*FIELDS, "objective.overlap")
    best_by = ("f1", "exact_match")
    reads_windows = True
    short_form = ShortForm(length=384, micro_batch_tokens=4096)

    def as_file(self, value: Any, name: str) -> tuple[str, str]:
        columns = {3: ("question", "context", "answer")}
        paragraphs = [
            _paragraph(row, i, f"{name}[{i}]")
            for i, row in enumerate(records(value, name, columns))
        ]
        return ".json", json.dumps({"data": [{"paragraphs": paragraphs}]}, ensure_ascii=False)

    def raw(self, recipe: RecipeFields, path: Path, bad: Bad = stop) -> Iterator[Raw]:
        return questions(path, bad, recipe.data.encoding)

    def labels(self, recipe: RecipeFields, paths: RunPaths) -> tuple[str, ...]:
        return ()

    def encode_labels(self, recipe: RecipeFields, raw: Question, labels: Any) -> Document:
        return raw

    def store_kind(self, recipe: RecipeFields, paths: RunPaths) -> StoreKind:
        return "answers"

    def dataset(self, recipe: RecipeFields, parts: DatasetParts) -> Dataset:
        options = recipe.objective
        return QuestionAnsweringDataset(*parts.common(options.length), options.overlap)

    def metric_names(
        self, recipe: RecipeFields, labels: Sequence[str], documents: Sequence[Any] = ()
    ) -> tuple[str, ...]:
        return ("f1", "exact_match")

    def metrics(
        self, task: Task, tokenizer: Tokenizer, documents: Sequence[Question],
        labels: Sequence[str], pool: str,
    ) -> dict[str, float]:  # fmt: skip
        from glassformer.evaluation import metrics
        from glassformer.inference import answer

        asked = [(each.question, each.context) for each in documents]
        some_impossible = any(each.impossible for each in documents)
        answers = answer(task, tokenizer, asked, no_answer=some_impossible)
        texts = [best[0].text if best else "" for best in answers]
        return metrics.of_answers(texts, [[text for text, _ in e.answers] for e in documents])

    def describe_labels(
        self, batch: Batch, number: int, spec: TaskConfig, piece: Callable[[int], str]
    ) -> str | dict[int, str]:
        assert batch.labels is not None  # noqa: S101
        begin = int(batch.sequences.offsets[number])
        ends = zip(batch.labels[number].tolist(), ("first", "last"), strict=True)
        return {begin + position: name for position, name in ends if position != NO_LABEL}

    def probe(self, recipe: RecipeFields, task: Task, tokens: int, texts: int) -> dict[str, Tensor]:
        import torch

        return {"labels": torch.zeros(texts, 2, dtype=torch.long)}


def _paragraph(row: Row, number: int, where: str) -> dict[str, Any]:
    """A question from Python as SQuAD has it; the answer is a text, a list of texts, or as in
    datasets: {"text": […], "answer_start": […]}. No answer: the context does not have one."""
    question, context = (pick(row, (name,), where) for name in ("question", "context"))
    answers = pick(row, ("answers", "answer"), where)
    starts: list[int | None]
    if isinstance(answers, dict):
        texts, starts = list(answers.get("text", ())), list(answers.get("answer_start", ()))
    else:
        texts = answers if isinstance(answers, list) else [answers] if answers else []
        starts = [None] * len(texts)
    if not isinstance(context, str) or len(texts) != len(starts):
        raise InputError(f"{where}: give a context, and for each answer its text and its start")
    located = []
    for text, start in zip(texts, starts, strict=True):
        at = context.find(str(text)) if start is None else start
        if at < 0:
            raise InputError(f"{where}: the context does not have the answer {shown(text)}")
        located.append({"text": text, "answer_start": at})
    asked = {"id": str(row.get("id", number)), "question": question, "answers": located}
    return {"context": context, "qas": [asked | {"is_impossible": not located}]}


OBJECTIVE = QuestionAnsweringObjective()
