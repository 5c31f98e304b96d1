"""The curves and checkpoints of a training run, also while it is running."""

from __future__ import annotations

from pathlib import Path

from glassformer.studio.schemas import TrainingProgress
from glassformer.train.curves import Line, read
from glassformer.train.run_dir import checkpoints

MAX_POINTS = 600  # of a curve


def progress(folder: Path, step: int | None) -> TrainingProgress:
    """What the run in `folder` has logged; `step` is the one that the served model is from."""
    curve = read(folder)
    return TrainingProgress(
        steps=checkpoints(folder),
        losses=_thinned(curve.train),
        evaluations=curve.valid,
        ended=(folder / "model").is_dir(),
        shown=step,
    )


def _thinned(line: Line) -> Line:
    """At most MAX_POINTS points, evenly spaced, and the last one."""
    every = -(-len(line) // MAX_POINTS)
    return line[::every] + (line[-1:] if (len(line) - 1) % every else [])
