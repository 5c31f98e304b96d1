"""How texts are laid out in rows, and rows over a step, changes nothing that is learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import FAMILIES, session, write_recipe

from glassformer.data.batches import PackedRow
from glassformer.data.packing import Samples
from glassformer.train.loop import Step, take_step
from glassformer.train.trainer import Trainer

KINDS = [(family, "") for family in FAMILIES] + [("encoder", "masked_lm")]
EXACT = 1e-6  # relative, in float32


@pytest.fixture(params=KINDS, ids=str)
def recipe(request: Any, tmp_path: Path) -> Path:
    family, objective = request.param
    return write_recipe(tmp_path, family, objective=objective, dropout=False, micro_batches=4)


def joined(parts: list[Samples]) -> Samples:
    def both(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else np.concatenate(found)

    return Samples(both("first"), both("second"), both("follows"))


def row(given: Trainer, samples: Samples) -> PackedRow:
    objective = given.rows.dataset
    return PackedRow(objective.batch(samples, 0, None), int(objective.costs(samples).sum()))


def step(given: Trainer, rows: list[PackedRow]) -> tuple[Step, torch.Tensor]:
    """What a step says, and its gradient before it was clipped."""
    given.state.train = given.state.train.model_copy(update={"max_grad_norm": 1e9})
    done = take_step(given.state, rows, given.world)
    return done, given.state.weights.gradient.clone()


def check_same(one: tuple[Step, torch.Tensor], other: tuple[Step, torch.Tensor]) -> None:
    for name, loss in one[0].losses.items():
        assert abs(other[0].losses[name] - loss) <= EXACT * abs(loss), name
    assert (one[1] - other[1]).norm() <= EXACT * one[1].norm()


def test_one_row_or_several(recipe: Path, tmp_path: Path) -> None:
    several, one = (session(recipe, tmp_path / name) for name in ("several", "one"))
    samples = [several.rows.plan(0).row(i) for i in range(4)]
    rows = [row(several, each) for each in samples]
    assert len({int((each.batch.labels != -100).sum()) for each in rows}) > 1, "all are even"
    check_same(step(several, rows), step(one, [row(one, joined(samples))]))


def test_a_mean_of_means_would_be_seen(recipe: Path, tmp_path: Path) -> None:
    """What a loop does that divides each row's loss by the row's own count."""
    given = session(recipe, tmp_path / "run")
    rows = [given.rows[i] for i in range(4)]
    wrong = torch.stack([given.state.task(each.batch).losses["labels"].mean for each in rows])
    with pytest.raises(AssertionError):
        right = step(given, rows)[0].losses["labels"]
        assert abs(wrong.mean() - right) <= EXACT * abs(right)


def test_the_order_of_texts(recipe: Path, tmp_path: Path) -> None:
    forwards, backwards = (session(recipe, tmp_path / name) for name in ("one", "other"))
    samples = joined([forwards.rows.plan(0).row(i) for i in range(4)])
    mixed = samples.take(np.random.default_rng(1).permutation(len(samples)))
    halves = [mixed.take(slice(None, 5)), mixed.take(slice(5, None))]
    check_same(
        step(forwards, [row(forwards, samples)]),
        step(backwards, [row(backwards, half) for half in halves]),
    )


def test_packed_texts_have_the_gradients_they_have_alone(recipe: Path, tmp_path: Path) -> None:
    given = session(recipe, tmp_path / "run")
    task = given.state.task.double()
    samples = given.rows.plan(0).row(0)
    assert len(samples) > 1

    def gradient(some: Samples) -> torch.Tensor:
        task.zero_grad()
        found = task(given.rows.dataset.batch(some, 0, None)).losses
        torch.stack([each.total for each in found.values()]).sum().backward()
        parts = [p.grad if p.grad is not None else torch.zeros_like(p) for p in task.parameters()]
        return torch.cat([part.flatten() for part in parts])

    whole = gradient(samples)
    alone = sum(gradient(samples.take([i])) for i in range(len(samples)))
    assert (whole - alone).norm() <= 1e-6 * whole.norm()  # losses are float32
    assert (whole - gradient(samples.take([0]))).norm() > 1e-3 * whole.norm()


def test_workers_change_nothing(recipe: Path, tmp_path: Path) -> None:
    none, two = (session(recipe, tmp_path / "run", workers=n) for n in ("0", "2"))
    numbers = range(3, 3 * len(none.rows.plan(0)), 3)  # over the edges of epochs
    for one, other in zip(
        none.rows.stream(numbers, workers=0), two.rows.stream(numbers, workers=2), strict=True
    ):
        assert torch.equal(one.batch.tokens, other.batch.tokens)
        assert torch.equal(one.batch.labels, other.batch.labels)


def test_a_row_is_the_same_without_those_before_it(recipe: Path, tmp_path: Path) -> None:
    given = session(recipe, tmp_path / "run")
    last = 2 * len(given.rows.plan(0)) + 1
    *_, after = given.rows.stream(range(last + 1))
    fresh = session(recipe, tmp_path / "other").rows[last]
    assert torch.equal(after.batch.tokens, fresh.batch.tokens)
    assert torch.equal(after.batch.labels, fresh.batch.labels)
