"""Before the first step and after the last one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from glassformer.checkpoint import model_card, save_task
from glassformer.errors import CheckpointError, counted
from glassformer.fields import TrainConfig
from glassformer.kernels.compiler import compile_for_training
from glassformer.model.block import Block
from glassformer.precision import dtype_name
from glassformer.recipe.paths import map_paths, without_folders
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import RECIPE, as_toml
from glassformer.tasks import Task
from glassformer.train.adapter import result_name, write_result
from glassformer.train.loop import losses_of
from glassformer.train.run_dir import check_complete
from glassformer.train.state import PRECISION
from glassformer.train.trainer import Trainer


def resume(trainer: Trainer, train: TrainConfig, log: Callable[[str], None]) -> None:
    """Load the last checkpoint, if there is one, and compile the model, if the recipe says so."""
    state, run_dir = trainer.state, trainer.run_dir
    if train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
        torch.use_deterministic_algorithms(True)
    if state.compute.dtype != PRECISION[train.precision]:
        log(f"train.precision = {train.precision!r}: computing in float32: {state.compute.reason}")
    last = run_dir.latest(log)
    if last is None and (steps := run_dir.steps()):
        raise CheckpointError(
            f"{run_dir.checkpoints}: {counted(len(steps), 'checkpoints')}, none of them complete: "
            "move them away, then the same command starts afresh"
        )
    if last is not None:
        state.load(last)
        log(_where_it_resumes(trainer, train))
    if trainer.world.is_main:
        run_dir.rewind(state.progress.step if last is not None else -1)
    if train.compile and state.weights.outline is not None:
        compile_blocks(state.task)
    elif train.compile:
        trainer.losses = compile_for_training(trainer.losses or losses_of(state.task))
        trainer.call = torch.compile(state.task, fullgraph=True, dynamic=False)
    if train.activation_checkpointing:
        checkpoint_activations(state.task)


def _where_it_resumes(trainer: Trainer, train: TrainConfig) -> str:
    folder, step = trainer.run_dir.folder, trainer.state.progress.step
    if step >= train.steps or trainer.is_stalled():
        return (
            f"{folder}: this run is finished, after step {step:,} of {train.steps:,}: raise "
            "train.steps to continue it, or choose another --out"
        )
    recipe = folder / RECIPE
    before = read_recipe(recipe).train.steps if recipe.is_file() else train.steps
    changed = f", with train.steps = {train.steps:,} instead of {before:,}"
    return f"resuming after step {step:,}{changed if before != train.steps else ''}"


def checkpoint_activations(task: Task) -> None:
    """Each block drops its activations and computes them again in the backward pass."""
    for module in task.modules():
        if isinstance(module, Block):
            forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
            module.forward = forward  # type: ignore[method-assign]


def compile_blocks(task: Task) -> None:
    """Of a sharded model each block is compiled: its weights are gathered between the blocks."""
    for module in task.modules():
        if isinstance(module, Block):
            module.forward = compile_for_training(module.forward)  # type: ignore[method-assign]


def finish(trainer: Trainer, recipe: Recipe) -> dict[str, Any]:
    """Write the model: the best weights if they were evaluated, else the last ones. Returns
    the folder, the step and the metrics."""
    state, run_dir = trainer.state, trainer.run_dir
    progress = state.progress
    trainer.finish_saving()
    if trainer.world.is_main:
        # A run killed during its last save has not done so.
        run_dir.forget(progress, state.train.keep_checkpoints)
    best = run_dir.checkpoints / f"step-{progress.best_step:08d}"
    if progress.best is not None and progress.best_step != progress.step and _is_complete(best):
        state.load(best)
    metrics = trainer.result()
    task = state.inference_task()  # all processes take part, if it is sharded
    if trainer.world.is_main:
        card = model_card(task, recipe.name, dtype_name(task.backbone.token_embedding.dtype))
        trained = "\n" + training_card(trainer, recipe, metrics)
        files = {**run_dir.files, "README.md": (card + trained).encode()}
        if recipe.adapter is None:
            save_task(task, run_dir.folder / "model", files=files, notes=run_dir.notes)
        else:
            write_result(task, recipe, run_dir.folder, trained, files, run_dir.notes)
    trainer.world.wait()
    folder = run_dir.folder / result_name(recipe)
    return {"model": str(folder), "step": progress.step, "valid": metrics}


def _is_complete(folder: Path) -> bool:
    try:
        check_complete(folder)
    except CheckpointError:
        return False
    return True


def training_card(trainer: Trainer, recipe: Recipe, metrics: dict[str, float]) -> str:
    """The section of the model card about the training."""
    progress = trainer.state.progress
    # Full paths of this machine are of no use elsewhere.
    shared = map_paths(Recipe, recipe.model_copy(update={"root": None}), without_folders)
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in metrics.items())
    return f"""## How it was trained

Objective `{recipe.objective.kind}` on `{shared.data.train}`, {counted(progress.step, "steps")},
{counted(progress.tokens, "tokens")}, {progress.seconds:.0f} s. Recipe:

```toml
{as_toml(shared)}```

On the validation data:

| | |
|---|---|
{rows}
"""
