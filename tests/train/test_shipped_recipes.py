"""The recipes of the models that come with the package, at a hundredth of their size: the same
losses bit for bit whenever they run, and those that are known.

If a change was meant to move them, the message of the failing test has the new ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import smallship
from glassformer.train.loop import fit

GOLDEN: dict[str, list[float]] = {"gf-encoder": [], "gf-decoder": [], "gf-en-ru": []}
MOST = {"gf-encoder": 8e6, "gf-decoder": 6e6, "gf-en-ru": 6e6}  # parameters


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    smallship.write_data(root)
    return root


@pytest.mark.parametrize("name", GOLDEN)
def test_its_losses_are_known(name: str, data: Path, tmp_path: Path) -> None:
    first, again = (smallship.small_session(name, data, tmp_path / part) for part in ("a", "b"))
    losses = [step.loss for step in fit(first.state, first.rows, first.world)]
    assert losses[:5] == [
        step.loss
        for step, _ in zip(fit(again.state, again.rows, again.world), range(5), strict=False)
    ]
    assert losses == pytest.approx(GOLDEN[name], abs=1e-4), [round(each, 5) for each in losses]
    assert sum(losses[-5:]) < sum(losses[:5])
