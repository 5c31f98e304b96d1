"""Where a run reads and writes, and how it reports progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.prepare import Progress

Report = Callable[[str, Progress | None], None]


def _silent(line: str, progress: Progress | None) -> None:
    pass


@dataclass(frozen=True)
class RunPaths:
    root: Path  # the folder of the data
    out: Path
    source: str  # the recipe's file, for errors
    report: Report = _silent
    labels: tuple[str, ...] = ()  # the names of the classes of labelled data

    @property
    def silent(self) -> RunPaths:
        """The same paths, without reports."""
        return replace(self, report=_silent)

    def log(self, line: str) -> None:
        self.report(line, None)
