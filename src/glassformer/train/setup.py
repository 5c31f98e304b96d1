"""Before the first step and after the last."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from glassformer.checkpoint import model_card, save_task
from glassformer.checkpoint.folder import verify
from glassformer.durable import write_whole
from glassformer.errors import CheckpointError
from glassformer.model.block import Block
from glassformer.precision import dtype_name
from glassformer.recipe.paths import map_paths, without_folders
from glassformer.recipe.schema import Recipe
from glassformer.recipe.toml import RECIPE, as_toml
from glassformer.tasks import Task
from glassformer.train.loop import losses_of
from glassformer.train.state import PRECISION
from glassformer.train.trainer import Trainer


def ready(session: Trainer, recipe: Recipe, tell: Callable[[str], None]) -> None:
    """Take up the run where it was broken off, and make the model fast."""
    state, run, train = session.state, session.run, recipe.train
    if train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it
        torch.use_deterministic_algorithms(True)
    if state.compute.dtype != PRECISION[train.precision]:
        tell(f"train.precision = {train.precision!r}: computing in float32: {state.compute.reason}")
    last = run.latest(tell)
    if last is None and (found := run.steps()):
        raise CheckpointError(
            f"{run.checkpoints}: none of its {len(found)} checkpoints is whole: move them away, "
            "then the same command begins afresh"
        )
    if session.world.is_main:
        write_whole(run.folder / RECIPE, as_toml(recipe).encode())
    if last is not None:
        state.load(last)
        tell(f"going on after step {state.facts.step:,}")
    if session.world.is_main:
        run.rewind(state.facts.step if last is not None else -1)
    if train.activation_checkpointing:
        recompute(state.task)
    if train.compile:
        settings = {"fullgraph": True, "dynamic": False}
        losses = session.losses or losses_of(state.task)
        session.losses = torch.compile(losses, **settings)  # type: ignore[call-overload]
        session.call = torch.compile(state.task, **settings)  # type: ignore[call-overload]


def recompute(task: Task) -> None:
    """Each block forgets what is inside it and makes it again on the way back."""
    for module in task.modules():
        if isinstance(module, Block):
            forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
            module.forward = forward  # type: ignore[method-assign]


def finish(session: Trainer, recipe: Recipe) -> dict[str, Any]:
    """Write the result: the best weights if they were measured, else the last ones."""
    state, run = session.state, session.run
    facts = state.facts
    if session.world.is_main:
        run.forget(state)  # a run that was killed in its last save has not
    best = run.checkpoints / f"step-{facts.best_step:08d}"
    if facts.best is not None and facts.best_step != facts.step and _is_whole(best):
        state.load(best)
    figures = session.result()
    if session.world.is_main:
        answer = state.answer()
        card = model_card(answer, recipe.name, dtype_name(answer.backbone.token_embedding.dtype))
        card += "\n" + training_card(session, recipe, figures)
        files = {**run.files, "README.md": card.encode()}
        save_task(answer, run.folder / "model", files=files, notes=run.notes)
    session.world.wait()
    return {"model": str(run.folder / "model"), "step": facts.step, "valid": figures}


def _is_whole(folder: Path) -> bool:
    try:
        verify(folder)
    except CheckpointError:
        return False
    return True


def training_card(session: Trainer, recipe: Recipe, figures: dict[str, float]) -> str:
    facts, learn = session.state.facts, recipe.objective
    # A place of this machine helps nobody else.
    shared = map_paths(Recipe, recipe.model_copy(update={"root": None}), without_folders)
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in figures.items())
    return f"""## How it was trained

Objective `{learn.kind}` on `{shared.data.train}`, {facts.step:,} steps, {facts.tokens:,} tokens,
{facts.seconds:.0f} s. Recipe:

```toml
{as_toml(shared)}```

On the part that was held out:

| | |
|---|---|
{rows}
"""
