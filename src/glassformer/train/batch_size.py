"""`train.micro_batch_tokens = "auto"`: the largest micro-batch that fits, measured once per run.

A CPU is fastest with what fits its cache, so it gets a fixed number. On a GPU the micro-batch grows
until the memory is full; each size is tried by a whole step on a copy of the model.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from glassformer.data.batches import PackedRow, PackedRows
from glassformer.distributed import DistributedContext
from glassformer.errors import ConfigError, GlassformerError
from glassformer.fields import MOST_STEPS, TrainConfig
from glassformer.model import Batch, Sequences
from glassformer.objectives import Objective
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import RECIPE
from glassformer.tasks import Task
from glassformer.train.loop import take_step
from glassformer.train.setup import checkpoint_activations
from glassformer.train.state import State

ON_CPU = 1_024  # a token takes least time in rows of 600 to 2,600: benchmarks/scaling.py
LEAST, MOST = 1_024, 131_072  # longer rows do not make a GPU any faster
SHARE = 0.85  # of the memory: compilation and kernel workspaces take the remainder
WITH_GRAPHS = 0.7  # captured graphs keep their memory while the model is evaluated


def largest_batch(
    recipe: Recipe, objective: Objective, task: Task, out: Path, world: DistributedContext
) -> int:
    """The tokens of a micro-batch; a resumed run keeps those it started with."""
    tokens = _stored(out / RECIPE)
    if tokens is None and world.device.type == "cuda":
        largest = _largest(recipe, objective, task, world.device) if world.is_main else 0
        tokens = int(world.sum(torch.tensor(largest)))  # all processes take the main one's
    return max(tokens or ON_CPU, recipe.objective.length)


def steps_of_epochs(train: TrainConfig, rows: PackedRows) -> dict[str, int]:
    """The fields that follow from train.epochs: steps, and how often to evaluate and save."""
    if train.epochs is None:
        return {}
    epoch = len(rows.plan(0)) / train.micro_batches
    fields = {"steps": max(1, round(train.epochs * epoch))}
    if fields["steps"] > MOST_STEPS:
        raise ConfigError(
            f"train.epochs = {train.epochs:g} is {fields['steps']:,} steps: write at most "
            f"{MOST_STEPS / epoch:g}"
        )
    for name in ("evaluate_every", "save_every"):
        if name not in train.model_fields_set:
            fields[name] = max(1, round(epoch))
    return fields


def _stored(path: Path) -> int | None:
    if not path.is_file():
        return None
    tokens = read_recipe(path).train.micro_batch_tokens
    return tokens if isinstance(tokens, int) else None


def _largest(recipe: Recipe, objective: Objective, task: Task, device: torch.device) -> int:
    free, _ = torch.cuda.mem_get_info(device)
    limit = (WITH_GRAPHS if recipe.train.cuda_graphs else SHARE) * (
        free + torch.cuda.memory_reserved(device)
    )
    base = torch.cuda.memory_allocated(device)
    state = State(copy.deepcopy(task), recipe.train)
    if recipe.train.activation_checkpointing:
        checkpoint_activations(state.task)
    length = recipe.objective.length
    tokens = max(LEAST, -(-length // LEAST) * LEAST)
    measured = [(0, torch.cuda.memory_allocated(device) - base)]
    while tokens <= MOST:
        peak = _peak(state, _row(recipe, objective, state.task, tokens), device)
        if peak is None or peak - base > limit:
            break
        measured.append((tokens, peak - base))
        tokens *= 2
    del state
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return _fill(measured, limit, tokens, memory_advice(recipe.train))


def memory_advice(train: TrainConfig) -> str:
    """Options that save memory."""
    options = "--train.activation_checkpointing true"
    return options + " --train.cuda_graphs false" if train.cuda_graphs else options


def _fill(measured: list[tuple[int, int]], limit: float, too_long: int, advice: str) -> int:
    """Memory is linear in the tokens: extrapolate to the limit."""
    if len(measured) == 1:
        raise GlassformerError(
            f"train.micro_batch_tokens = 'auto': not even {too_long:,} tokens fit: take a smaller "
            f"model or a lower objective.length, or set {advice}"
        )
    (less, low), (more, high) = measured[-2:]
    per_token = max(1.0, (high - low) / (more - less))
    tokens = more + int((limit - high) / per_token)
    return min(tokens, too_long - 1, MOST) // LEAST * LEAST


def _peak(state: State, row: PackedRow, device: torch.device) -> int | None:
    """Peak bytes of a step (forward, backward, optimiser); None if it runs out of memory."""
    world = DistributedContext(0, 1, device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    try:
        take_step(state, [row] * min(2, state.train.micro_batches), world)
        torch.cuda.synchronize(device)
    except torch.OutOfMemoryError:
        return None
    return torch.cuda.max_memory_allocated(device)


def _row(recipe: Recipe, objective: Objective, task: Task, tokens: int) -> PackedRow:
    """As many of the longest texts as fit, with as many labels as a row may have."""
    config, length = task.backbone.config, recipe.objective.length
    remainder = tokens % length
    lengths = [length] * (tokens // length) + ([remainder] if remainder else [])
    sequences = Sequences.of(lengths)
    zeros = torch.zeros(tokens, dtype=torch.long)
    batch = Batch(
        zeros,
        sequences,
        segments=zeros if config.segments else None,
        source=Batch(zeros, sequences) if config.family == "seq2seq" else None,
    )
    labels: dict[str, Any] = objective.probe(recipe, task, tokens, len(lengths))
    return PackedRow(replace(batch, **labels), tokens)
