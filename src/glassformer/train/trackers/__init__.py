"""Experiment trackers: one file each, opened if the recipe names them in train.trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from glassformer.errors import GlassformerError, check_installed, shown
from glassformer.fields import TrackerName
from glassformer.train.trackers.base import TrackedRun, Tracker
from glassformer.train.trackers.mlflow import MlflowTracker
from glassformer.train.trackers.tensorboard import TensorBoardTracker
from glassformer.train.trackers.wandb import WandbTracker

TRACKERS: dict[TrackerName, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}
EXTRAS: dict[TrackerName, str] = {"tensorboard": "log", "wandb": "wandb", "mlflow": "mlflow"}


def check_trackers(names: Iterable[TrackerName]) -> None:
    """ConfigError if the package of a tracker is not installed."""
    for name in names:
        check_installed(f"train.trackers = {name!r}", EXTRAS[name], name)


@contextmanager
def reported(name: TrackerName) -> Iterator[None]:
    """What goes wrong in a tracker (a login, the network) is one line."""
    try:
        yield
    except GlassformerError:
        raise
    except Exception as error:  # each library has its own
        reason = shown(" ".join(str(error).split()))
        raise GlassformerError(
            f"train.trackers: {name} failed: {reason}: fix that, or leave {name} out; the same "
            "call resumes the run"
        ) from None


__all__ = ["TRACKERS", "TrackedRun", "Tracker", "check_trackers", "reported"]
