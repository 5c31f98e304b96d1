"""`gf.evaluate`: a model on the validation data of a recipe."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.checkpoint import read_configs
from glassformer.data.prepare import Progress
from glassformer.data.run_paths import Report, RunPaths
from glassformer.distributed import join
from glassformer.errors import ConfigError, check_installed
from glassformer.evaluation.loss import by_document, loss_metrics, perplexity
from glassformer.evaluation.translation import TranslationEvaluator
from glassformer.fields import TokenizerConfig
from glassformer.loaded import load
from glassformer.model import Batch
from glassformer.objectives import objective_of
from glassformer.objectives.labelled import LabelledEvaluator
from glassformer.precision import compute_dtype
from glassformer.recipe.paths import model_path
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import root_of
from glassformer.tasks import Output, Task
from glassformer.train.build import Builder
from glassformer.train.state import PRECISION

DEFAULT_TOKENS = 4_096  # of a micro-batch, if the recipe says "auto"
SHOWN = 32  # characters of a document


def evaluate(
    model: str | Path,
    recipe: str | Path,
    *,
    data: str | Path | None = None,
    changes: dict[str, str] | None = None,
    sentences: int | None = None,
    num_beams: int = 4,
    length_penalty: float = 1.0,
    per_document: bool = False,
    report: Report | None = None,
    adapter: str | Path | None = None,
) -> dict[str, Any]:
    """Loss and metrics of a model on the validation data of a recipe.

    model: a model folder or a name. recipe: a TOML file, or a run's folder. data: where the
    recipe's data is. changes: single fields of the recipe, as {"data.valid": "test.txt"}.
    sentences: how many to translate for BLEU, chrF and TER; all if not given, none if 0.
    per_document: also the metrics of each document (causal_lm only). report: called with
    lines about skipped texts. Of labelled data the result also has `classes`, the precision, recall
    and F1 of each class, and `confusion`: rows are true classes, columns are predicted ones.
    adapter: a folder with an adapter in PEFT's layout, merged into the model's weights.
    """
    if adapter is not None:
        with merged_folder(model, adapter) as folder:
            return evaluate(
                folder, recipe, data=data, changes=changes, sentences=sentences,
                num_beams=num_beams, length_penalty=length_penalty, per_document=per_document,
                report=report,
            )  # fmt: skip
    path = Path(recipe)
    resolved = recipe_for(read_recipe(path, changes or {}), str(model))
    if per_document and not objective_of(resolved).per_document:
        raise ConfigError(
            f"per_document: objective.kind = {resolved.objective.kind!r} has no documents: leave "
            "it out"
        )
    root = root_of(resolved, None if data is None else Path(data), path)
    search = {"num_beams": num_beams, "length_penalty": length_penalty}
    paths = RunPaths(root, Path(), str(recipe))
    paths = paths if report is None else replace(paths, report=report)
    return measure(resolved, paths, sentences, search, per_document=per_document)


@contextmanager
def merged_folder(model: str | Path, adapter: str | Path) -> Iterator[str]:
    """A folder of the model with the adapter merged into its weights, until the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        load(model, adapter=adapter).merge_adapter().save(folder)
        yield folder


def recipe_for(recipe: Recipe, model: str) -> Recipe:
    """The recipe with this model and its tokenizer, without compiling."""
    objective, head = objective_of(recipe), read_configs(model)[1]
    if head.kind != objective.task:
        raise ConfigError(
            f"{model}: this model is for {head.kind}, and the recipe's objective.kind = "
            f"{objective.name!r} needs one for {objective.task}"
        )
    separator = recipe.data.label_separator
    if head.several != (separator is not None):
        labels = "any number of labels" if head.several else "one label"
        write = "write it" if head.several else "leave it out"
        raise ConfigError(
            f"{model}: this model gives a text {labels}, and the recipe's data.label_separator = "
            f"{separator!r}: {write}"
        )
    tokens = recipe.train.micro_batch_tokens
    tokens = max(DEFAULT_TOKENS, recipe.objective.length) if tokens == "auto" else tokens
    fields = {"compile": False, "cuda_graphs": False, "micro_batch_tokens": tokens}
    return recipe.model_copy(
        update={
            "init_from": model_path(model),
            "random_init": False,
            "adapter": None,
            "model": {},
            "tokenizer": TokenizerConfig(),
            "train": recipe.train.model_copy(update=fields),
        }
    )


def measure(
    recipe: Recipe,
    paths: RunPaths,
    sentences: int | None = None,
    search: dict[str, Any] | None = None,
    *,
    per_document: bool = False,
) -> dict[str, Any]:
    """All metrics of a recipe's initial model on its validation data."""
    objective = objective_of(recipe)
    objective.check_packages()
    translates = objective.sides == 2 and sentences != 0
    if translates:
        check_installed("BLEU (leave it out with --translate 0)", "metrics", "sacrebleu")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        closing(join(recipe.train.device)) as world,
    ):
        builder = Builder(recipe, replace(paths, out=Path(folder)))
        task, rows = builder.validation(world)
        task = task.to(compute_dtype(PRECISION[recipe.train.precision], task.device).dtype)
        passes = 2 if objective.labelled else 1  # labelled data is read again for its metrics
        watched = _watched(task, passes * len(rows.plan(0)), paths)
        metrics: dict[str, Any] = loss_metrics(task, rows, world, watched)
        if objective.per_document and rows.dataset.store.folder.is_relative_to(folder):
            texts = [str(text) for text in objective.read(recipe, builder.paths, "valid")]
            size = sum(len(text.encode()) for text in texts)
            metrics["bits_per_byte"] = _bits(metrics["loss"] * metrics["answers"], size)
            if per_document:
                metrics["documents"] = _documents(texts, by_document(task, rows, world).tolist())
        elif per_document:
            raise ConfigError(
                f"{rows.dataset.store.folder}: per_document needs text, not token ids"
            )
        if objective.labelled:
            metrics |= _labelled(builder, task)
        if translates:
            metrics |= _translation(builder, task, sentences, search or {}, paths)
    return metrics


def _watched(task: Task, batches: int, paths: RunPaths) -> Callable[[Batch], Output]:
    """The task; reports how many of the batches it has read."""
    count = itertools.count(1)

    def call(batch: Batch) -> Output:
        output: Output = task(batch)
        _report(paths, next(count) / batches)
        return output

    return call


def _report(paths: RunPaths, share: float) -> None:
    paths.report("evaluating", Progress(0, 0, 0, share))


def _labelled(builder: Builder, task: Task) -> dict[str, Any]:
    evaluator = builder.evaluator()
    assert isinstance(evaluator, LabelledEvaluator)  # noqa: S101
    return evaluator.report(task)


def _translation(
    builder: Builder, task: Task, sentences: int | None, search: dict[str, Any], paths: RunPaths
) -> dict[str, Any]:
    evaluator = builder.evaluator(sentences=sentences, **search)
    assert isinstance(evaluator, TranslationEvaluator)  # noqa: S101
    scores = evaluator(task, ("bleu", "chrf", "ter"), lambda share: _report(paths, share))
    metrics: dict[str, Any] = {name: score.value for name, score in scores.items()}
    metrics["signatures"] = {name: score.signature for name, score in scores.items()}
    return metrics


def _bits(nats: float, size: int) -> float:
    return nats / math.log(2) / size


def _documents(texts: list[str], sums: list[list[float]]) -> list[dict[str, Any]]:
    documents = []
    for text, (nats, answers) in zip(texts, sums, strict=True):
        loss = nats / max(1, answers)
        size = len(text.encode())
        documents.append({
            "begins": text[:SHOWN], "bytes": size, "answers": int(answers), "loss": loss,
            "perplexity": perplexity(loss), "bits_per_byte": _bits(nats, size),
        })  # fmt: skip
    return documents
