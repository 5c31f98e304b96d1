"""kill -9 at any moment: no unreadable checkpoint, and nothing that was learnt is changed by it."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import (
    FAMILIES,
    End,
    Life,
    damaged,
    die_inside_save,
    live,
    naive_and,
    result,
    snapshots,
    steps,
    write_recipe,
)

from sampling import mostly_slow

EVERY = 2  # steps between saves
CASES = list(itertools.product(FAMILIES, ("float32", "bfloat16"), (1, 4), (0, 2)))


class Killer:
    """Lives of one run, each ended by force, until as many were killed as wanted."""

    def __init__(self, recipe: Path, seed: int, *, naive: bool = False) -> None:
        self.recipe, self.draw, self.naive = recipe, random.Random(seed), naive
        start = time.monotonic()
        self.whole = live("pretrain", recipe, "--out", recipe.parent / "whole")
        self.usual = time.monotonic() - start
        self.kills: Counter[str] = Counter()
        self.moved = 0  # how many of those that were killed had done a step
        self.damaged: list[str] = []
        self.runs: list[dict[str, Any]] = []  # results of those that came to their end
        self.out = recipe.parent / "killed"

    def go(self, kills: int) -> None:
        while self.kills.total() < kills:
            how = ("inside", "at once", "later", "later", "later")[self.kills.total() % 5]
            before = steps(self.out)
            end = self._one(how)
            if end.status == -9:
                self.kills[how] += 1
            self._look(before, end)
        while not self.runs or self.out.exists():
            self._look(steps(self.out), self._one("never"))

    def _one(self, how: str) -> End:
        mischief: Any = None
        if how == "inside":  # there are some 25 points
            mischief = partial(die_inside_save, self.draw.randint(0, 2), self.draw.randint(0, 24))
        if self.naive:
            mischief = partial(naive_and, mischief)
        life = Life("pretrain", self.recipe, "--out", self.out, mischief=mischief)
        if how == "at once":  # in the preparations, most likely
            time.sleep(self.draw.uniform(0, self.usual / 2))
            life.kill()
        elif how == "later":
            for _ in range(self.draw.randint(1, 5)):
                if not life.hear():
                    break
            time.sleep(self.draw.uniform(0, self.usual / 12))
            life.kill()
        return life.end()

    def _look(self, before: tuple[int, int], end: End) -> None:
        self.damaged += damaged(self.out)
        self.moved += end.status == -9 and end.steps > 0
        if end.status == 0:
            self.runs.append(result(self.out))
            assert not [*self.out.rglob(".*.tmp*")], "something is left of those that were killed"
        if end.status == 0 or (end.status == 1 and self.naive):  # no checkpoint is complete
            shutil.rmtree(self.out)
            return
        assert end.status == -9, end.said
        logged, saved = steps(self.out)
        if not self.naive:
            assert saved >= before[1], "a checkpoint was lost"
            assert logged - saved <= EVERY, "more than one interval is lost"


def check(recipe: Path, kills: int, seed: int) -> Counter[str]:
    killer = Killer(recipe, seed)
    assert killer.whole.status == 0 and killer.whole.steps == 12, killer.whole.said
    expected = result(recipe.parent / "whole")
    assert len(expected) > 5
    killer.go(kills)
    assert not killer.damaged, killer.damaged
    assert killer.moved >= 3 / 5 * kills, "they were killed before they did anything"
    for found in killer.runs:
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == value, f"{name} differs after kills (seed {seed})"
    return killer.kills


def settings(case: tuple[Any, ...]) -> dict[str, Any]:
    _, precision, micro_batches, workers = case
    return {
        "precision": precision, "micro_batches": micro_batches, "workers": workers,
        "save_every": EVERY,
    }  # fmt: skip


def test_kills_leave_no_trace(tmp_path: Path) -> None:
    """Of one run; all families and settings in `make test-all`."""
    case = ("encoder", "bfloat16", 4, 2)
    recipe = write_recipe(tmp_path, case[0], **settings(case))
    kills = check(recipe, 5, CASES.index(case))
    assert kills["inside"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_thousand_kills_leave_no_trace(case: tuple[Any, ...], tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, case[0], **settings(case))
    kills = check(recipe, 42, 100 + CASES.index(case))
    assert kills["inside"] >= 42 / 5


@pytest.mark.parametrize("family", mostly_slow(FAMILIES))
def test_what_a_kill_would_leave_at_every_write(family: str, tmp_path: Path) -> None:
    """Not at some moments but at all that differ: some 200 between the first byte and the last."""
    recipe = write_recipe(
        tmp_path, family, steps=2, save_every=1, evaluate_every=2, keep_checkpoints=1
    )
    out, left = tmp_path / "run", tmp_path / "left"
    end = live("pretrain", recipe, "--out", out, mischief=partial(snapshots, out, left))
    assert end.status == 0, end.said
    expected, newest = result(out), 0
    folders = sorted(left.iterdir())
    assert len(folders) > 120
    for i, folder in enumerate(folders):
        assert damaged(folder) == [], folder.name
        assert steps(folder)[1] >= newest, f"{folder.name}: a checkpoint was lost"
        newest = steps(folder)[1]
        if i % 120 == 119:
            assert live("pretrain", recipe, "--out", folder).status == 0
            assert result(folder) == expected, folder.name


@pytest.mark.slow
def test_a_naive_writer_would_be_seen(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=EVERY)
    killer = Killer(recipe, 0, naive=True)
    killer.go(10)
    assert killer.damaged
