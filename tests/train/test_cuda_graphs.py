"""A row that is replayed teaches what it would have taught: all its numbers are taken over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import session

import tiny
from glassformer.train import cuda_graphs
from glassformer.train.cuda_graphs import CapturedGraphs, GraphCapture, Parts, Work
from glassformer.train.loop import take_step
from sampling import mostly_slow

CPU = torch.device("cpu")
STEPS = 8


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numbers of Python's, such as lengths, are not asked for; nor where it is compiled."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


class Again(GraphCapture):
    """Where there is no GPU: the same work once more, at the same places in memory."""

    def __init__(self) -> None:
        self.asides = self.replays = 0

    def warm_up(self, work: Work) -> Parts:
        self.asides += 1
        return work()

    def capture(self, work: Work) -> tuple[Callable[[], object], Parts]:
        parts: Parts = {}

        def replay() -> None:
            self.replays += 1
            parts.update(work())

        return replay, parts


def learnt(out: Path, recipe: Path, rows: int, recorder: GraphCapture | None) -> torch.Tensor:
    """Loss and norm of each step; rows have fixed shapes, as on a GPU."""
    run = session(recipe, out, micro_batches=str(rows), steps=str(STEPS))
    run.rows.shape = run.rows._shape()
    graphs = CapturedGraphs(CPU, recorder) if recorder else None
    found = []
    for number in range(STEPS):
        taken = [run.rows[number * rows + i] for i in range(rows)]
        step = take_step(run.state, taken, run.world, run.losses, graphs=graphs)
        found.append([step.loss, step.norm])
    return torch.tensor(found)


KINDS = [*reversed(tiny.KINDS), *tiny.LABELLED]


@pytest.mark.parametrize("rows", mostly_slow([3, 1]))
@pytest.mark.parametrize("kind", mostly_slow(KINDS))
def test_replayed_or_not(kind: str, rows: int, tmp_path: Path) -> None:
    recipe, recorder = tiny.write_recipe(tmp_path, kind), Again()
    plain = learnt(tmp_path / "plain", recipe, rows, None)
    captured = learnt(tmp_path / "captured", recipe, rows, recorder)
    assert recorder.asides + recorder.replays == rows * STEPS
    assert recorder.replays > recorder.asides
    assert captured.allclose(plain, rtol=1e-5)


def test_a_row_that_is_not_taken_over_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny.write_recipe(tmp_path)
    plain = learnt(tmp_path / "plain", recipe, 1, None)
    monkeypatch.setattr(cuda_graphs, "_tensors", lambda batch: iter(()))
    stale = learnt(tmp_path / "stale", recipe, 1, Again())
    assert stale[: cuda_graphs.WARM + 1].allclose(plain[: cuda_graphs.WARM + 1], rtol=1e-5)
    assert not stale.allclose(plain, rtol=1e-3)
