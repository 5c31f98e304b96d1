"""What a tracker knows about a run, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class TrackedRun:
    folder: Path
    name: str
    id: str  # of this run alone, and the same when it is resumed
    fields: Mapping[str, str]  # of the recipe: {"train.steps": "100"}
    done: int  # steps before this start


class Tracker(Protocol):
    """Opened with a `TrackedRun`. A run may go back, and log some of its steps again."""

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """The values after a step: train/loss, valid/accuracy …"""

    def flush(self) -> None:
        """Now would be a good time to write."""

    def rewind(self, step: int) -> None:
        """The run continues after this step; what was logged of later ones is void."""

    def close(self) -> None: ...
