"""A bad step is undone: the run rolls back to the last checkpoint and skips the step's rows."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import at_step, damaged, live, result, signal_self, steps, write_recipe
from spoiling import rows_of, spoil

from glassformer.checkpoint import load_task
from sampling import mostly_slow


def both(*mischief: Any) -> None:
    for each in mischief:
        each()


def without(recipe: Path, *blocks: int) -> dict[str, Any]:
    """What comes of a run that knows from the start which rows are bad."""
    out = recipe.parent / "without"
    out.mkdir()
    skipped = {"skipped": list(blocks), "rollbacks": len(blocks)}
    (out / "skipped.json").write_text(json.dumps(skipped))
    end = live("pretrain", recipe, "--out", out)
    assert end.status == 0, end.said
    return result(out)


def check_finite(run: Path) -> None:
    assert damaged(run) == []
    folders = [*run.glob("checkpoints/step-*")]
    assert folders
    for folder in folders:
        load_task(folder)  # it refuses NaN and infinity


# Block 1 is bad before the first save, block 4 in the middle, block 5 in a step that would save.
@pytest.mark.parametrize(
    ("how", "block"),
    mostly_slow([("nan", 1), ("nan", 4), ("nan", 5), ("inf", 4), ("gradient", 4)]),
)
def test_a_rollback_skips_the_rows(how: str, block: int, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=3)
    bad = rows_of(recipe, tmp_path / "look", block)
    out = tmp_path / "run"
    end = live("pretrain", recipe, "--out", out, mischief=partial(spoil, bad, how))
    assert end.status == 0 and "rolled back to step" in end.said, end.said
    assert json.loads((out / "skipped.json").read_text()) == {"skipped": [block], "rollbacks": 1}
    check_finite(out)
    assert result(out) == without(recipe, block)


def test_a_spike_is_seen(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=30, save_every=4, documents=120)
    bad = rows_of(recipe, tmp_path / "look", 25)
    out = tmp_path / "run"
    end = live("pretrain", recipe, "--out", out, mischief=partial(spoil, bad, "spike"))
    assert end.status == 0 and "times its usual size" in end.said, end.said
    expected = without(recipe, 25)
    last = [name for name in expected if "step-00000012" not in name]  # that one did not know yet
    assert {name: result(out)[name] for name in last} == {name: expected[name] for name in last}


def test_after_three_times_it_gives_up(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=3)
    bad = rows_of(recipe, tmp_path / "look", 4, 5, 6, 7)
    out = tmp_path / "run"
    mischief = partial(spoil, bad, "nan")
    end = live("pretrain", recipe, "--out", out, mischief=mischief)
    assert end.status == 3 and end.said.count("rolled back to step") == 3, end.said
    assert end.said.splitlines()[-1].startswith(f"glassformer: {out}: step 5: the loss")
    assert "Traceback" not in end.said
    check_finite(out)
    again = live("pretrain", recipe, "--out", out, mischief=mischief)
    assert again.status == 3 and "rolled back to step" not in again.said
    assert json.loads((out / "skipped.json").read_text())["skipped"] == [4, 5, 6]


def die_when_loading() -> None:
    from glassformer.train.state import State

    State.load = lambda state, folder: signal_self(signal.SIGKILL)  # type: ignore[method-assign]


@pytest.mark.parametrize("when", mostly_slow(["in the middle of it", "afterwards"]))
def test_a_kill_does_not_bring_the_rows_back(when: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=3)
    bad = rows_of(recipe, tmp_path / "look", 4)
    out = tmp_path / "run"
    die = {
        "in the middle of it": die_when_loading,
        "afterwards": partial(at_step, 5, partial(signal_self, signal.SIGKILL)),
    }[when]
    end = live(
        "pretrain", recipe, "--out", out, mischief=partial(both, partial(spoil, bad, "nan"), die)
    )
    assert end.status == -9, end.said
    end = live("pretrain", recipe, "--out", out, mischief=partial(spoil, bad, "nan"))
    assert end.status == 0 and "rolled back to step" not in end.said
    assert result(out) == without(recipe, 4)


def spoil_weight(step: int, flag: Path) -> None:
    """Once, after this step, a weight is NaN or infinite: a bit that flipped in memory."""
    from glassformer.train.optim.weights import Weights

    publish, count = Weights.publish, [0]

    def published(weights: Weights) -> None:
        publish(weights)
        count[0] += 1
        if count[0] == step and not flag.exists():
            flag.touch()
            with torch.no_grad():
                next(iter(weights.masters.values())).view(-1)[3] = float("nan")

    Weights.publish = published  # type: ignore[method-assign]


@pytest.mark.parametrize("step", mostly_slow([6, 4]), ids=["where it saves", "before a save"])
def test_a_spoilt_weight_does_not_reach_a_checkpoint(step: int, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=3)
    out = tmp_path / "run"
    mischief = partial(spoil_weight, step, tmp_path / "flag")
    end = live("pretrain", recipe, "--out", out, mischief=mischief)
    assert end.status == 0 and "rolled back to step" in end.said, end.said
    check_finite(out)


def spoil_evaluation() -> None:
    from glassformer.train import trainer

    loss_metrics, count = trainer.loss_metrics, [0]

    def once(*given: Any) -> dict[str, float]:
        count[0] += 1
        return {**loss_metrics(*given), **({"loss": float("nan")} if count[0] == 1 else {})}

    trainer.loss_metrics = once


def test_an_evaluation_that_is_nan_is_not_the_best_one(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=3)
    end = live("pretrain", recipe, "--out", tmp_path / "run", mischief=spoil_evaluation)
    assert end.status == 0 and "the validation loss is NaN or infinite" in end.said, end.said
    check_finite(tmp_path / "run")
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_a_learning_rate_beyond_reason(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, learning_rate=1e3, warmup=0, max_grad_norm=1e9)
    end = live("pretrain", recipe, "--out", tmp_path / "run")
    assert end.status == 3 and "lower train.learning_rate" in end.said.splitlines()[-1], end.said
    check_finite(tmp_path / "run")
    assert steps(tmp_path / "run")[1] < 12
