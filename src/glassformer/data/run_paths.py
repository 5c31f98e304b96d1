"""Where a run reads and writes, and how it reports progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.prepare import Progress
from glassformer.data.remote import fetch, is_address
from glassformer.errors import InputError

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

    def data(self, path: str) -> Path:
        """The local path of a file of [data]; a file at an address is fetched."""
        return fetch(path) if is_address(path) else self.root / path

    def find(self, field: str, path: str) -> Path:
        """Where the path of a recipe's field leads; InputError if nothing is there."""
        full = self.data(path)
        if full.exists():
            return full
        origin = field
        if not Path(path).is_absolute():
            beside = self.root == Path(self.source).parent.absolute()
            folder = "the recipe's folder" if beside else f"the data folder {self.root}"
            origin = f"{field} = {path!r}, relative to {folder}"
        raise InputError(f"File not found: {full} ({origin})")

    def log(self, line: str) -> None:
        self.report(line, None)
