"""`train.micro_batch_tokens = "auto"`: the longest row that fits, kept with the run.

A CPU has memory for far longer rows than it likes: what is in its cache is fastest, so it gets a
fixed number. On a GPU rows grow until they fill it, each tried by a whole step on a copy.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor

from glassformer.data.batches import PackedRow, PackedRows
from glassformer.distributed import DistributedContext
from glassformer.errors import GlassformerError
from glassformer.model import Batch, Sequences
from glassformer.recipe.schema import Recipe
from glassformer.recipe.toml import RECIPE, read_fields
from glassformer.tasks import Task
from glassformer.train.loop import take_step
from glassformer.train.setup import recompute
from glassformer.train.state import State

ON_CPU = 1_024  # a token takes least time in rows of 600 to 2,600: benchmarks/scaling.py
LEAST, MOST = 1_024, 131_072  # longer rows do not make a GPU any faster
SHARE = 0.85  # of the memory: compiling, and kernels that need room, take the rest
ON_TAPE = 0.7  # what is recorded keeps its memory while the model is evaluated


def resolve_batch_size(recipe: Recipe, out: Path, world: DistributedContext, task: Task) -> Recipe:
    """The recipe with a number of tokens; a run that goes on keeps the one it began with."""
    if recipe.train.micro_batch_tokens != "auto":
        return recipe
    tokens = _before(out / RECIPE)
    if tokens is None and world.device.type == "cuda":
        found = _largest(recipe, task, world.device) if world.is_main else 0
        tokens = int(world.sum(torch.tensor(found)))  # all take what the first one found
    tokens = max(tokens or ON_CPU, recipe.objective.length)
    train = recipe.train.model_copy(update={"micro_batch_tokens": tokens})
    return recipe.model_copy(update={"train": train})


def resolve_steps(recipe: Recipe, rows: PackedRows) -> Recipe:
    """The recipe with a number of steps, where it says how often each text is read."""
    train = recipe.train
    if train.epochs is None:
        return recipe
    epoch = len(rows.plan(0)) / train.micro_batches
    found = {"steps": max(1, round(train.epochs * epoch))}
    for name in ("evaluate_every", "save_every"):
        if name not in train.model_fields_set:
            found[name] = max(1, round(epoch))
    return recipe.model_copy(update={"train": train.model_copy(update=found)})


def _before(path: Path) -> int | None:
    if not path.is_file():
        return None
    tokens = read_fields(path).get("train", {}).get("micro_batch_tokens")
    return tokens if isinstance(tokens, int) else None


def _largest(recipe: Recipe, task: Task, device: torch.device) -> int:
    free, _ = torch.cuda.mem_get_info(device)
    limit = (ON_TAPE if recipe.train.cuda_graphs else SHARE) * (
        free + torch.cuda.memory_reserved(device)
    )
    base = torch.cuda.memory_allocated(device)
    state = State(copy.deepcopy(task), recipe.train)
    if recipe.train.activation_checkpointing:
        recompute(state.task)
    length = recipe.objective.length
    tokens = max(LEAST, -(-length // LEAST) * LEAST)
    known = [(0, torch.cuda.memory_allocated(device) - base)]
    while tokens <= MOST:
        peak = _peak(state, recipe, tokens, device)
        if peak is None or peak - base > limit:
            break
        known.append((tokens, peak - base))
        tokens *= 2
    del state
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return _fill(known, limit, tokens, memory_advice(recipe))


def memory_advice(recipe: Recipe) -> str:
    """What to write where memory is short."""
    return "--train.activation_checkpointing true" + (
        " --train.cuda_graphs false" if recipe.train.cuda_graphs else ""
    )


def _fill(known: list[tuple[int, int]], limit: float, too_long: int, advice: str) -> int:
    """Memory grows with the tokens in a straight line: where does it meet the limit?"""
    if len(known) == 1:
        raise GlassformerError(
            f"train.micro_batch_tokens = 'auto': not even a row of {too_long:,} tokens fits: take "
            f"a smaller model or a lower objective.length, or set {advice}"
        )
    (less, low), (more, high) = known[-2:]
    each = max(1.0, (high - low) / (more - less))
    tokens = more + int((limit - high) / each)
    return min(tokens, too_long - 1, MOST) // LEAST * LEAST


def _peak(state: State, recipe: Recipe, tokens: int, device: torch.device) -> int | None:
    """Bytes that a whole step takes: forward, backward, optimiser."""
    mine = DistributedContext(0, 1, device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    try:
        row = _row(recipe, state.task, tokens)
        take_step(state, [row] * min(2, recipe.train.micro_batches), mine)
        torch.cuda.synchronize(device)
    except torch.OutOfMemoryError:
        return None
    return torch.cuda.max_memory_allocated(device)


def _row(recipe: Recipe, task: Task, tokens: int) -> PackedRow:
    """As many of the longest texts as it holds, with as many answers as there will be."""

    def zeros(count: int) -> Tensor:
        return torch.zeros(count, dtype=torch.long)

    learn, config = recipe.objective, task.backbone.config
    rest = tokens % learn.length
    lengths = [learn.length] * (tokens // learn.length) + ([rest] if rest else [])
    sequences = Sequences.of(lengths)
    masked = learn.kind in ("masked_lm", "masked_lm_nsp")
    answers = int(learn.mask_rate * tokens) + len(lengths) if masked else tokens
    texts = len(lengths)
    labels = {
        "classification": zeros(texts),
        "question_answering": zeros(2 * texts).reshape(-1, 2),
        "sentence_embedding": torch.arange(texts // 2),
    }.get(learn.kind, zeros(answers))
    if learn.kind == "classification" and len(task.spec.labels) == 1:
        labels = labels.float()
    if task.spec.several:
        labels = torch.zeros(texts, len(task.spec.labels))
    batch = Batch(
        zeros(tokens),
        sequences,
        segments=zeros(tokens) if config.segments else None,
        source=Batch(zeros(tokens), sequences) if config.family == "seq2seq" else None,
        labels=labels,
        label_positions=torch.arange(answers) if masked else None,
        next_sentence_labels=zeros(len(lengths)) if learn.kind == "masked_lm_nsp" else None,
    )
    return PackedRow(batch, tokens)
