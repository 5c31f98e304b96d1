"""`gf.dry_run`: what a run would do, down to its first micro-batch; nothing is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from glassformer.config import TaskConfig
from glassformer.data.batches import PackedRows
from glassformer.data.dataset import NO_LABEL, Dataset
from glassformer.data.run_paths import RunPaths
from glassformer.data.store import OTHERS
from glassformer.errors import GlassformerError
from glassformer.model import Batch
from glassformer.objectives import objective_of
from glassformer.objectives.base import Objective
from glassformer.objectives.labelled import label_counts
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import root_of
from glassformer.sizes import measure
from glassformer.text import Tokenizer
from glassformer.train.fit import Run, open_run, out_of_memory
from glassformer.train.loop import Step, fit
from glassformer.train.trainer import Trainer

SHOWN = 3  # texts of the first micro-batch
TIMED, SLOW = 3, 5.0  # steps to time; a first step that takes so many seconds is enough


def dry_run(
    recipe: str | Path, *, data: str | Path | None = None, out: str | Path | None = None,
    changes: dict[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Prepare the data, build the model, and describe the run: sizes, memory, time, skipped texts
    and the first micro-batch. The arguments are those of `fit`."""
    path = Path(recipe)
    resolved = read_recipe(path, changes or {})
    root = root_of(resolved, None if data is None else Path(data), path)
    folder = Path("runs") / resolved.name if out is None else Path(out)
    with open_run(resolved, RunPaths(root, folder, str(recipe))) as run:
        return describe(run)


def describe(run: Run) -> dict[str, Any]:
    """The facts of a run that was opened; see `dry_run`."""
    trainer, recipe = run.trainer, run.recipe
    task, rows, train = trainer.state.task, trainer.rows, recipe.train
    objective = objective_of(recipe)
    out = trainer.run_dir.folder
    tokenizer = Tokenizer.from_files(trainer.run_dir.files, str(out))
    assert tokenizer is not None  # noqa: S101
    sizes = measure(task.backbone.config, task.spec)
    plan = rows.plan(0)
    real = int(rows.dataset.costs(plan.samples).sum())
    room = len(plan) * rows.budget * objective.sides
    return {
        "name": recipe.name,
        "out": str(out),
        "objective": recipe.objective.kind,
        "init_from": recipe.init_from,
        "config": task.backbone.config.model_dump(),
        "parameters": {"bare": sizes.bare, "with_head": sizes.with_head},
        "memory_bytes": memory(trainer, recipe),
        "data": {
            name: _size(part)
            for name, part in (("train", rows), ("valid", trainer.valid))
            if part is not None
        },
        "steps": train.steps,
        "compile": train.compile,
        "micro_batches": train.micro_batches,
        "micro_batch_tokens": rows.budget,
        "tokens_per_step": round(real / len(plan) * train.micro_batches),
        "micro_batches_per_epoch": len(plan),
        "epochs": train.steps * train.micro_batches / len(plan),
        "filler_fraction": 1 - real / room,
        "labels": label_counts(rows.dataset.store),
        "skipped": _skipped(rows.dataset),
        "sides": objective.sides,
        "first_batch": _first(rows, tokenizer, objective, task.spec),
        "time": timing(run),  # last: it trains some steps
    }


def timing(run: Run) -> dict[str, float] | None:
    """Seconds of a step, of an evaluation and of the whole run, from a few steps. None if there
    are several processes: all of them would have to take part."""
    trainer, train = run.trainer, run.recipe.train
    if trainer.world.size > 1:
        return None
    try:
        step = _step_seconds(trainer)
        evaluation = _evaluation_seconds(trainer)
    except torch.OutOfMemoryError:
        raise GlassformerError(out_of_memory(run.recipe)) from None
    evaluations = math.ceil(train.steps / train.evaluate_every) if evaluation else 0
    seconds = step * train.steps + evaluation * evaluations
    return {"step": step, "evaluation": evaluation, "evaluations": evaluations, "total": seconds}


def _step_seconds(trainer: Trainer) -> float:
    """The first step also warms up, so it counts only if it is long, or the only one."""
    steps = fit(trainer.state, trainer.rows, trainer.world, trainer.losses)
    first, *others = _timed(steps)
    return sum(others) / len(others) if others else first


def _timed(steps: Iterator[Step]) -> Iterator[float]:
    for _ in range(1 + TIMED):
        start = time.monotonic()
        step = next(steps, None)
        if step is None:
            return
        _ = step.loss  # waits for the device
        seconds = time.monotonic() - start
        yield seconds
        if seconds > SLOW:
            return


@torch.no_grad()
def _evaluation_seconds(trainer: Trainer) -> float:
    """Labelled data is read twice: for its loss, then for its metrics."""
    rows, task = trainer.valid, trainer.state.task
    if rows is None:
        return 0.0
    task.eval()
    start = time.monotonic()
    losses = task(rows[0].batch.to(trainer.world.device)).losses
    _ = [each.total.item() for each in losses.values()]  # waits for the device
    passes = 1 if trainer.evaluator is None else 2
    return passes * len(rows.plan(0)) * (time.monotonic() - start)


def memory(trainer: Trainer, recipe: Recipe) -> dict[str, int]:
    """Bytes of a step's tensors. Activations are a rough estimate: they depend on the kernels."""
    state, train = trainer.state, recipe.train
    parameters = state.weights.parameters  # of a sharded model, those of this process
    count = sum(p.numel() for p in parameters)
    moments_bytes = 0
    for optimiser in state.optimisers:
        moments = 1 if isinstance(optimiser, torch.optim.Muon) else 2
        sizes = [p.numel() for group in optimiser.param_groups for p in group["params"]]
        moments_bytes += 4 * moments * sum(sizes)
    parts = {
        "weights": sum(p.numel() * p.element_size() for p in parameters),
        "masters": 4 * count if state.weights.copies else 0,
        "gradients": 4 * count * (min(2, train.micro_batches) if trainer.world.size == 1 else 1),
        "optimiser": moments_bytes,
        "ema": 4 * count if state.average else 0,
        "activations": _activations(trainer, recipe),
    }
    return {name: size for name, size in parts.items() if size} | {"total": sum(parts.values())}


def _activations(trainer: Trainer, recipe: Recipe) -> int:
    """For each block, what the backward pass needs of norms, linear maps and MLP; for each logit 12
    bytes: itself and its gradient, in the model's precision and in float32."""
    config = trainer.state.task.backbone.config
    size = next(trainer.state.task.parameters()).element_size()
    stacks = [config, config.output_stack] if config.family == "seq2seq" else [config]
    block = [10 * own.width + own.mlp_width * (4 if own.gated else 2) for own in stacks]
    blocks = sum(own.depth * one for own, one in zip(stacks, block, strict=True))
    blocks += sum(6 * own.depth * own.width for own in stacks[1:])  # cross attention
    if recipe.train.activation_checkpointing:
        blocks = sum(own.depth * own.width for own in stacks) + 2 * max(block)
    objective, labels = objective_of(recipe), trainer.state.task.spec.labels
    choices = len(labels) if objective.labelled else config.vocab_size
    logits = objective.label_share(recipe) * choices * 12
    return int(trainer.rows.budget * (size * blocks + logits))


def _size(rows: PackedRows) -> dict[str, int]:
    store = rows.dataset.store
    tokens = sum(sum(count) for name, count in store.meta.tokens.items() if name not in OTHERS)
    return {"documents": store.documents, "tokens": tokens}


def _skipped(dataset: Dataset) -> dict[str, int]:
    """What the model will not see, or not in one piece."""
    skipped = [*dataset.skipped(), *dataset.unused()]
    return {each.reason: each.count for each in skipped if each.count}


def _first(
    rows: PackedRows, tokenizer: Tokenizer, objective: Objective, spec: TaskConfig
) -> dict[str, Any]:
    row = rows[0]
    batch = row.batch
    assert batch.labels is not None  # noqa: S101
    real = len(rows.plan(0).row(0))
    return {
        "texts": real,
        "tokens": row.tokens,
        "answers": int((batch.labels != NO_LABEL).sum()),
        "shown": [
            _text(batch, i, tokenizer, objective, spec)
            for i in range(min(SHOWN, real * rows.dataset.texts_per_sample))
        ],
    }


def _text(
    batch: Batch, number: int, tokenizer: Tokenizer, objective: Objective, spec: TaskConfig
) -> dict[str, Any]:
    """One text of the batch: its tokens, and the label of each or of all."""
    begin, end = batch.sequences.offsets[number : number + 2].tolist()
    piece = _pieces(tokenizer)
    labels = objective.describe_labels(batch, number, spec, piece)
    by_position = {} if isinstance(labels, str) else labels
    facts: dict[str, Any] = {
        "tokens": [piece(i) for i in batch.tokens[begin:end].tolist()],
        "answers": [by_position.get(i) for i in range(begin, end)],
    }
    if isinstance(labels, str):
        facts["label"] = labels
    if (
        batch.next_sentence_labels is not None
        and int(batch.next_sentence_labels[number]) != NO_LABEL
    ):
        facts["follows"] = int(batch.next_sentence_labels[number]) == 0
    if batch.source is not None:
        begin, end = batch.source.sequences.offsets[number : number + 2].tolist()
        facts["source"] = [piece(i) for i in batch.source.tokens[begin:end].tolist()]
    return facts


def _pieces(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A token as it appears in a text; a part of a character by its name in the tokenizer."""
    of_bytes = "ByteLevel" in type(tokenizer.backend.decoder).__name__

    def piece(i: int) -> str:
        text = tokenizer.decode([i]) if of_bytes else tokenizer.token(i)
        return text if text and "\ufffd" not in text else tokenizer.token(i)

    return piece
