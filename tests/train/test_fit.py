"""`gf.fit`: the run of the command, a step at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import metrics, result, write_recipe

import glassformer as gf
from commands import glassformer
from glassformer.errors import GlassformerError
from glassformer.train.loop import Step
from glassformer.train.trainer import Evaluated, Saved


def test_the_same_run_as_the_command(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    events = list(gf.fit(recipe, out=tmp_path / "run", changes={"train.steps": 6}))
    glassformer("pretrain", recipe, "--out", tmp_path / "command", "--train.steps", 6)
    assert result(tmp_path / "run") == result(tmp_path / "command")
    told = [each for each in metrics(tmp_path / "command") if "loss" in each]
    steps = [each for each in events if isinstance(each, Step)]
    assert [(each.number, each.loss) for each in steps] == [(t["step"], t["loss"]) for t in told]
    assert any(isinstance(each, Evaluated) for each in events)
    assert [each.step for each in events if isinstance(each, Saved)] == [0, 2, 4, 6]
    assert gf.load(tmp_path / "run/model").task.width == 16


def test_left_and_taken_up_again(tmp_path: Path) -> None:
    recipe, whole = write_recipe(tmp_path), tmp_path / "whole"
    assert sum(isinstance(each, Step) for each in gf.fit(recipe, out=whole)) == 12
    run = gf.fit(recipe, out=tmp_path / "cut")
    for event in run:
        if isinstance(event, Step) and event.number == 7:
            with pytest.raises(GlassformerError, match="cut"):  # it is somebody's
                next(gf.fit(recipe, out=tmp_path / "cut"))
            break
    run.close()  # type: ignore[attr-defined]
    rest = [e.number for e in gf.fit(recipe, out=tmp_path / "cut") if isinstance(e, Step)]
    assert rest == [7, 8, 9, 10, 11, 12]
    assert result(whole) == result(tmp_path / "cut")


def test_a_wrong_field_is_told(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    with pytest.raises(GlassformerError, match=r"unknown field .train\.stepps"):
        next(gf.fit(recipe, changes={"train.stepps": 3}))
