"""Published effects: their sign and order on our models."""

import json

import pytest

from commands import glassformer
from glassformer.interpret.reproduce import induction


def test_heads_and_permuted_attention() -> None:
    said = glassformer("reproduce", "heads", "permuted", "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    assert [row["paper"] for row in rows] == ["Clark et al. 2019"] * 2 + ["Jain and Wallace 2019"]
    assert [row["holds"] for row in rows[:2]] == [True, True]
    assert rows[2]["holds"] is False  # attention is all that mixes words here


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_induction_needs_two_layers(seed: int) -> None:
    assert all(row.holds for row in induction(seed=seed))


@pytest.mark.slow
def test_without_training_there_is_no_induction() -> None:
    assert not any(row.holds for row in induction(steps=1))
