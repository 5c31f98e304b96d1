"""The events of a run as scalars for trackers: the contents of metrics.jsonl, and the speed."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from glassformer.durable import write_whole
from glassformer.errors import InputError, shown
from glassformer.fields import TrackerName
from glassformer.train.loop import Step
from glassformer.train.trackers import TRACKERS, TrackedRun, Tracker, reported
from glassformer.train.trainer import Evaluated, Event, RolledBack, Trainer

ID = "run_id"  # in the folder of a run: what trackers know it by


class EventLogger:
    """Logs all events in order. A step is logged at the next event, because a GPU may not have
    finished it before."""

    def __init__(self, trackers: Mapping[TrackerName, Tracker], processes: int) -> None:
        self.trackers, self.processes = trackers, processes
        self._pending: tuple[Step, float | None] | None = None
        self._since: float | None = None  # the end of the last step, if nothing came between

    def log(self, event: Event) -> None:
        if isinstance(event, RolledBack):  # the pending step is one of the bad ones
            self._pending = None
            self._call(lambda tracker: tracker.rewind(event.step))
            return
        self.log_pending()
        if isinstance(event, Step):
            now = time.monotonic()
            self._pending = event, None if self._since is None else now - self._since
            self._since = now
            return
        self._since = None
        if isinstance(event, Evaluated):
            self._log(event.step, {f"valid/{name}": x for name, x in event.metrics.items()})
        self._call(lambda tracker: tracker.flush())

    def log_pending(self) -> None:
        if self._pending is None:
            return
        (step, seconds), self._pending = self._pending, None
        scalars = {"loss": step.loss, "learning_rate": step.rate, "gradient_norm": step.norm}
        if len(step.losses) > 1:
            scalars |= {f"loss_{name}": loss for name, loss in step.losses.items()}
        if seconds:
            scalars["tokens_per_second"] = step.tokens * self.processes / seconds
        self._log(step.number, {f"train/{name}": value for name, value in scalars.items()})

    def _log(self, step: int, scalars: dict[str, float]) -> None:
        self._call(lambda tracker: tracker.log(step, scalars))

    def _call(self, method: Callable[[Tracker], None]) -> None:
        for name, tracker in self.trackers.items():
            with reported(name):
                method(tracker)


@contextmanager
def tracked(
    trainer: Trainer, names: Sequence[TrackerName], fields: Mapping[str, Any]
) -> Iterator[EventLogger]:
    """These trackers, open, with the fields of the recipe; only the main process has any."""
    folder, done = trainer.run_dir.folder, trainer.state.progress.step
    trackers: dict[TrackerName, Tracker] = {}
    with ExitStack() as stack:
        for name in names if trainer.world.is_main else ():
            run = TrackedRun(folder, fields["name"], _run_id(folder), _flat(fields), done)
            with reported(name):
                trackers[name] = TRACKERS[name](run)
            stack.callback(trackers[name].close)
        logger = EventLogger(trackers, trainer.world.size)
        stack.callback(logger.log_pending)
        yield logger


def _run_id(folder: Path) -> str:
    path = folder / ID
    if not path.is_file():
        write_whole(path, uuid.uuid4().hex.encode())
    name = path.read_text("utf-8", "replace").strip()
    if not re.fullmatch(r"[0-9a-f]{32}", name):
        raise InputError(f"{path}: {shown(name)} is not the id of a run: delete this file")
    return name


def _flat(fields: Mapping[str, Any]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for group, value in fields.items():
        inner = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{group}.{name}".rstrip("."): str(each) for name, each in inner.items()}
    return flat
