"""A run is one folder: its recipe, its metrics, its checkpoints. It survives being killed.

runs/NAME/
  recipe.toml           the resolved recipe: a recipe like any other
  metrics.jsonl         one line per event, in order; a resumed run removes those it repeats
  skipped.json          rows that made the run diverge, and the number of rollbacks
  source/               what `gf.finetune` was given as Python objects
  data/, plan/          the text as ids, and which text is in which row
  checkpoints/step-00000250/   a model folder (`load` opens it), with optimiser and manifest
  tensorboard/, run_id  curves, and what trackers know the run by: see train.trackers
  model/                the result
  adapter/              the result of a recipe with [adapter], in PEFT's layout
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from pydantic import ConfigDict

from glassformer.adapters import merged
from glassformer.checkpoint import save_task
from glassformer.checkpoint.folder import CONFIG, WEIGHTS, verify
from glassformer.checkpoint.load import config_text
from glassformer.checkpoint.sharded import is_sharded
from glassformer.config import Count
from glassformer.durable import append, remove, sweep, sync, write_whole, writing
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import RECIPE
from glassformer.safe_files import kind_of
from glassformer.strictjson import parse_as
from glassformer.train.state import (
    OPTIMISER,
    TRAINER,
    State,
    Steps,
    TrainerState,
    read_trainer_state,
)

if TYPE_CHECKING:
    from glassformer.train.parallel.checkpoint import PendingCheckpoint

SUBFOLDERS = (
    "checkpoints",
    "source",
    "tokenizer",
    "data/train",
    "data/valid",
    "plan/train",
    "plan/valid",
)
# What a run keeps in its folder: nothing is written, or trusted, through a link in these places.
FILES = (".lock", "metrics.jsonl", "skipped.json", RECIPE, "run_id")
FOLDERS = ("checkpoints", "source", "tokenizer", "data", "plan", "model", "adapter", "tensorboard")
STEP = re.compile(r"step-(\d{8})")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run's folder: InputError if another process trains there."""
    with writing(folder, 0):
        folder.mkdir(parents=True, exist_ok=True)
        check_places(folder)
        path = folder / ".lock"
        if path.exists() and path.stat().st_size:  # a lock is empty, and opening it may empty it
            raise InputError(f"{path}: this is not the lock of a run: move it away")
        # The system releases it when the process ends, however it ends.
        try:
            lock = FileLock(path, blocking=False).acquire()
        except Timeout:
            raise InputError(
                f"{folder}: another process trains here: wait for it, or choose another folder "
                "with --out"
            ) from None
    with lock:
        for each in (folder, *(folder / name for name in SUBFOLDERS)):
            sweep(each)
        yield


def check_places(folder: Path) -> None:
    """InputError if a link, a FIFO or the like is where a run keeps its files."""
    for names, expected in ((FILES, "a file"), (FOLDERS, "a folder")):
        for name in names:
            _check_place(folder / name, expected)


def check_no_link(*folders: Path) -> None:
    """InputError if one of these folders, which a comparison names itself, is a link."""
    for folder in folders:
        if kind_of(folder) == "a link":
            raise InputError(f"{folder}: this is a link: move it away, or choose another --out")


def _check_place(path: Path, *expected: str) -> None:
    kind = kind_of(path)
    if kind is not None and kind not in expected:
        raise InputError(f"{path}: this is {kind}: move it away, or choose another --out")
    for each in path.iterdir() if kind == "a folder" else ():
        _check_place(each, "a file", "a folder")


# What a resumed run may change: how it is logged, saved and distributed, not what is trained.
FREE = {
    "objective.on_truncate", "train.workers", "train.keep_checkpoints", "train.save_every",
    "train.patience", "train.evaluate_every", "train.device", "train.steps", "train.epochs",
    "train.trackers", "train.cuda_graphs", "distributed.shard", "root", "adapter.merge",
    "data.workers",
}  # fmt: skip


def check_same(recipe: Recipe, folder: Path) -> None:
    """ConfigError if a run that has started would resume with another recipe."""
    path = folder / RECIPE
    if not path.is_file() or not checkpoints(folder):
        return
    # Read as a recipe: the run may be older than a field.
    before, now = (each.model_dump(mode="json") for each in (read_recipe(path), recipe))
    for name, value in now["train"].items():  # resolved values are kept
        if value is None or value == "auto":
            now["train"][name] = before["train"][name]
    for name in _changed(before, now):
        if name not in FREE:
            raise ConfigError(
                f"{folder}: a run with another {name} is here: choose another --out, or delete it"
            )


def _changed(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """The names of changed fields: GROUP.FIELD, or FIELD without a group."""
    for group in before | now:
        old, new = before.get(group), now.get(group)
        if isinstance(old, dict) or isinstance(new, dict):
            old, new = old or {}, new or {}
            yield from (f"{group}.{k}" for k in old | new if old.get(k) != new.get(k))
        elif old != new:
            yield group


def checkpoints(folder: Path) -> list[int]:
    """The steps that a run has saved."""
    parent = folder / "checkpoints"
    matches = (STEP.fullmatch(each.name) for each in (parent.iterdir() if parent.is_dir() else ()))
    return sorted(int(match[1]) for match in matches if match)


@dataclass(frozen=True)
class SkippedRows:
    """skipped.json: the blocks of rows to skip, and the number of rollbacks."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    skipped: list[Steps]
    rollbacks: Count


class RunDir:
    def __init__(self, folder: Path, files: dict[str, bytes], notes: dict[str, str]) -> None:
        self.folder = folder
        self.files, self.notes = files, notes  # of the tokenizer, for every checkpoint
        self.metrics = folder / "metrics.jsonl"
        self.checkpoints = folder / "checkpoints"
        self._pending: PendingCheckpoint | None = None

    def save(self, state: State) -> Path:
        """Write a checkpoint atomically, and delete old ones."""
        folder = self.checkpoints / f"step-{state.progress.step:08d}"
        if self.metrics.exists():  # they must not end before the checkpoint's step
            with writing(self.metrics, 0):
                sync(self.metrics)
        files = {**self.files, TRAINER: state.text()}
        if state.weights.outline is not None:
            return self._save_shares(state, folder, files)
        if folder.exists():  # a damaged one
            remove(folder)
        save_task(
            merged(state.inference_task()), folder, files=files, notes=self.notes,
            beside={OPTIMISER: state.tensors()},
        )  # fmt: skip
        self.forget(state.progress, state.train.keep_checkpoints)
        return folder

    def _save_shares(self, state: State, folder: Path, files: dict[str, bytes]) -> Path:
        """All processes call it. On a GPU it only starts to write."""
        from glassformer.train.parallel.checkpoint import write_sharded
        from glassformer.train.parallel.sharded import ShardedWeights

        weights = state.weights
        assert isinstance(weights, ShardedWeights)  # noqa: S101
        self.finish_saving()
        texts = {**files, CONFIG: config_text(weights.outline, None, self.notes).encode()}
        # The progress as it is now: the training may continue before the checkpoint is complete.
        forget = partial(self.forget, replace(state.progress), state.train.keep_checkpoints)
        self._pending = write_sharded(weights, folder, state.shares(), texts, forget)
        return folder

    def finish_saving(self) -> None:
        """Wait for a checkpoint that is being written in the background."""
        if self._pending is not None:
            self._pending.finish()
            self._pending = None

    def forget(self, progress: TrainerState, count: int) -> None:
        """Keep only the newest `count` checkpoints and the best. Those after this step were
        damaged."""
        steps = self.steps()
        kept = [step for step in steps if step <= progress.step][-count:]
        if progress.best is not None:
            kept.append(progress.best_step)
        for step in set(steps) - set(kept):
            remove(self.checkpoints / f"step-{step:08d}")

    def steps(self) -> list[int]:
        """The steps of all checkpoints."""
        return checkpoints(self.folder)

    def latest(self, log: Callable[[str], None] = lambda line: None) -> Path | None:
        """The newest complete checkpoint; damaged ones are reported to `log`."""
        for step in reversed(self.steps()):
            folder = self.checkpoints / f"step-{step:08d}"
            try:
                check_complete(folder)
                read_trainer_state(folder)
            except CheckpointError as error:
                log(f"{error}; the checkpoint before it is used")
                continue
            return folder
        return None

    def log(self, event: dict[str, Any]) -> None:
        """Append an event to metrics.jsonl."""
        line = json.dumps(event).encode() + b"\n"
        append(self.metrics, line)

    def rewind(self, step: int) -> None:
        """Remove the lines of steps that will be repeated."""
        if not self.metrics.exists():
            return
        with writing(self.metrics, 0):
            lines = self.metrics.read_bytes().splitlines()
        kept = [line for line in lines if _step(line) <= step]
        write_whole(self.metrics, b"".join(line + b"\n" for line in kept))

    def bad_rows(self) -> tuple[list[int], int]:
        """The blocks of rows to skip, and the number of rollbacks."""
        path = self.folder / "skipped.json"
        if not path.exists():
            return [], 0
        try:
            record = parse_as(SkippedRows, path.read_bytes(), str(path))
        except CheckpointError as error:
            raise InputError(f"{error}: write back what the run wrote, or delete the run") from None
        return record.skipped, record.rollbacks

    def skip(self, skipped: list[int], rollbacks: int) -> None:
        """Store what `bad_rows` returns."""
        record = json.dumps(asdict(SkippedRows(skipped, rollbacks)))
        write_whole(self.folder / "skipped.json", record.encode())


def check_complete(folder: Path) -> None:
    """CheckpointError if a file of a checkpoint is missing or damaged."""
    verify(folder, TRAINER, *(() if is_sharded(folder) else (WEIGHTS, OPTIMISER)))


def _step(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return float("inf")  # a truncated line, or a damaged one
