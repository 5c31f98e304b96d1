"""The first ten losses of fixed recipes: a change that moves the numbers is noticed.

If it was meant to, the message of the failing test has the new ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import session, write_recipe

from glassformer.train.loop import fit

GOLDEN = {  # by family, and with dropout or not
    ("decoder", False): [
        3.02447, 2.98413, 2.93103, 2.90655, 2.84772,
        2.76732, 2.77036, 2.71290, 2.75889, 2.73222,
    ],
    ("encoder", False): [
        3.92948, 3.88935, 3.93824, 3.88522, 3.80665,
        3.74253, 3.74983, 3.74762, 3.71974, 3.71107,
    ],
    ("seq2seq", False): [
        3.13077, 3.10753, 3.05049, 2.96206, 2.88782,
        2.86128, 2.81131, 2.83350, 2.73939, 2.78424,
    ],
    ("decoder", True): [
        3.02458, 2.98373, 2.93178, 2.90773, 2.85311,
        2.77495, 2.77577, 2.71539, 2.76169, 2.74547,
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_the_first_losses_are_known(case: tuple[str, bool], tmp_path: Path) -> None:
    family, dropout = case
    recipe = write_recipe(tmp_path, family, dropout=dropout, steps=10, micro_batches=2)
    given = session(recipe, tmp_path / "run")
    losses = [step.loss for step in fit(given.state, given.rows, given.world)]
    assert losses == pytest.approx(GOLDEN[case], abs=1e-4), str([round(each, 5) for each in losses])
    assert losses[-1] < losses[0]
