"""The loss curves of a run, finished or not, from its metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import InputError

SMOOTH = 50  # a mean spans this fraction of the curve: 1/50

Line = list[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    name: str
    train: Line
    valid: Line


def read(folder: str | Path) -> Curve:
    """The smoothed training loss and the validation loss of a run."""
    folder = Path(folder)
    path = folder / "metrics.jsonl"
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: write the folder of a run") from None
    train, valid = list(_values(lines, "loss")), list(_values(lines, "valid"))
    if not train:
        raise InputError(f"{path}: there is no step in it yet: try again later")
    return Curve(folder.resolve().name, smoothed(train), valid)


def _values(lines: Sequence[str], name: str) -> Iterator[tuple[float, float]]:
    """Step and loss of each line that has them; one that is being written is skipped."""
    for line in lines:
        try:
            event = json.loads(line)
            value = event[name]["loss"] if name == "valid" else event[name]
            step, loss = float(event["step"]), float(value)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
        if math.isfinite(loss) and math.isfinite(step):
            yield step, loss


def smoothed(line: Line) -> Line:
    """A moving average: each point is the mean of those around it."""
    half = len(line) // SMOOTH // 2
    sums = [0.0]
    for _, loss in line:
        sums.append(sums[-1] + loss)
    means = []
    for i, (step, _) in enumerate(line):
        low, high = max(0, i - half), min(len(line), i + half + 1)
        means.append((step, (sums[high] - sums[low]) / (high - low)))
    return means
