"""A run that is broken off and taken up again ends as if nothing had happened."""

from __future__ import annotations

import json
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import Life, at_step, live, result, signal_self, steps, write_recipe

from glassformer.strictjson import parse
from glassformer.train.run_dir import RunDir
from sampling import mostly_slow

STEPS = 12


def die_at(step: int) -> Any:
    return partial(at_step, step, partial(signal_self, signal.SIGKILL))


def ask_at(step: int, number: int = signal.SIGTERM) -> Any:
    return partial(at_step, step, partial(signal_self, number))


def ask_twice(step: int) -> None:
    def twice() -> None:
        signal_self(signal.SIGTERM)
        signal_self(signal.SIGTERM)

    at_step(step, twice)


def ask_until_it_ends() -> None:
    """A save that takes forever, as on a disk that does not answer."""
    from glassformer.cli import stop_signals

    stop_signals.REPEATED = 0.1

    def hang(run: RunDir, state: Any) -> Path:
        while True:
            time.sleep(0.2)
            signal_self(signal.SIGINT)

    def ask() -> None:
        RunDir.save = hang  # type: ignore[method-assign]
        signal_self(signal.SIGINT)

    at_step(5, ask)


def whole(recipe: Path) -> dict[str, Any]:
    end = live("pretrain", recipe, "--out", recipe.parent / "whole")
    assert end.status == 0, end.said
    return result(recipe.parent / "whole")


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def test_the_same_recipe_twice_gives_the_same_bits(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    expected = whole(recipe)
    live("pretrain", recipe, "--out", tmp_path / "again")
    same(result(tmp_path / "again"), expected)
    live("pretrain", recipe, "--out", tmp_path / "other", "--train.seed", 1)
    other = result(tmp_path / "other")
    assert other["model/model.safetensors"] != expected["model/model.safetensors"]


# Saves at 3, 6, 9; evaluations at 4, 8; the warm-up ends at 3; an epoch ends at 11.
@pytest.mark.parametrize(
    "cuts",
    [(1, 8), pytest.param(tuple(range(1, STEPS + 1)), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_cut_at_a_step(cuts: tuple[int, ...], tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, documents=10, valid=2, save_every=3)
    expected = whole(recipe)
    for step in cuts:
        out = tmp_path / f"cut-{step}"
        end = live("pretrain", recipe, "--out", out, mischief=die_at(step))
        assert end.status == -9 and end.steps == step
        _, saved = steps(out)
        assert 0 < step - saved <= 3
        end = live("pretrain", recipe, "--out", out)
        assert end.status == 0 and end.steps == STEPS - saved, end.said
        same(result(out), expected)


SETTINGS: list[dict[str, Any]] = [
    {"optimiser": "muon", "ema_decay": 0.9, "precision": "bfloat16", "micro_batches": 2},
    {"keep_checkpoints": 1, "evaluate_every": 1, "learning_rate": 0.3},  # the best is not the last
    {"activation_checkpointing": True, "deterministic": True},
]
ALONE: list[dict[str, Any]] = [
    {"optimiser": "muon"},
    {"ema_decay": 0.9},
    {"ema_decay": 0.9, "precision": "bfloat16"},
    {"activation_checkpointing": True},
    {"deterministic": True},
    {"schedule": "wsd", "keep_checkpoints": 1},
]


@pytest.mark.parametrize("settings", mostly_slow([*SETTINGS, *ALONE]), ids=str)
def test_cut_with(settings: dict[str, Any], tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=3, **settings)
    expected = whole(recipe)
    assert live("pretrain", recipe, "--out", tmp_path / "cut", mischief=die_at(8)).status == -9
    assert live("pretrain", recipe, "--out", tmp_path / "cut").status == 0
    same(result(tmp_path / "cut"), expected)


def test_the_end_of_patience_stays_the_end(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path, patience=2, evaluate_every=1, learning_rate=3, save_every=100, warmup=0
    )
    expected = whole(recipe)
    last = json.loads(expected["metrics"].splitlines()[-1])["step"]
    assert last < STEPS
    end = live("pretrain", recipe, "--out", tmp_path / "whole")
    assert end.status == 0 and end.steps == 0, end.said
    same(result(tmp_path / "whole"), expected)


def test_a_finished_run_is_only_finished_again(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    expected = whole(recipe)
    end = live("pretrain", recipe, "--out", tmp_path / "whole")
    assert end.status == 0 and end.steps == 0
    same(result(tmp_path / "whole"), expected)


def test_a_longer_run_goes_on_where_a_shorter_one_ended(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, schedule="constant", save_every=1)
    expected = whole(recipe)
    live("pretrain", recipe, "--out", tmp_path / "short", "--train.steps", 6)
    assert live("pretrain", recipe, "--out", tmp_path / "short").steps == STEPS - 6
    found = result(tmp_path / "short")
    assert found["model/model.safetensors"] == expected["model/model.safetensors"]


def test_another_recipe_is_not_mixed_in(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    before = whole(recipe)
    for change in (["--train.learning_rate", 0.02], ["--objective.length", 16]):
        end = live("pretrain", recipe, "--out", tmp_path / "whole", *change)
        assert end.status == 2 and f"another {str(change[0])[2:]}" in end.said.splitlines()[-1]
    same(result(tmp_path / "whole"), before)


@pytest.mark.parametrize(
    ("number", "at"), mostly_slow([(signal.SIGTERM, (1, 11)), (signal.SIGINT, (4,))])
)
def test_asked_to_stop_it_saves_within_a_step(
    number: int, at: tuple[int, ...], tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, save_every=100)
    expected = whole(recipe)
    for step in at:
        out = tmp_path / f"asked-{step}"
        end = live("pretrain", recipe, "--out", out, mischief=ask_at(step, number))
        assert end.status == 75 and end.steps == step + 1, end.said
        assert (out / "checkpoints" / f"step-{step + 1:08d}" / "manifest.json").is_file()
        assert f"saved after step {step + 1}" in end.said.splitlines()[-1]
        end = live("pretrain", recipe, "--out", out)
        assert end.status == 0 and end.steps == STEPS - step - 1, end.said
        found = result(out)
        for name in ("model/model.safetensors", "metrics"):
            assert found[name] == expected[name]


def test_asked_from_outside(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=10_000, save_every=10_000, evaluate_every=10_000)
    life = Life("pretrain", recipe, "--out", tmp_path / "run")
    for _ in range(3):
        assert life.hear()
    life.kill(signal.SIGTERM)
    end = life.end()
    assert end.status == 75 and end.steps < 10_000, end.said
    facts = parse(
        (tmp_path / "run" / "checkpoints" / f"step-{end.steps:08d}" / "trainer.json").read_bytes(),
        "",
    )
    assert facts["step"] == end.steps


def test_one_request_may_arrive_several_times(tmp_path: Path) -> None:
    """From the terminal and from torchrun: the second one must not end the process."""
    recipe = write_recipe(tmp_path, save_every=100)
    out = tmp_path / "run"
    end = live("pretrain", recipe, "--out", out, mischief=partial(ask_twice, 4))
    assert end.status == 75 and end.steps == 5, end.said
    assert "saved after step 5" in end.said.splitlines()[-1]
    assert live("pretrain", recipe, "--out", out).status == 0


def test_a_later_request_ends_the_run_at_once(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, save_every=100)
    out = tmp_path / "run"
    end = live("pretrain", recipe, "--out", out, mischief=ask_until_it_ends)
    assert end.status == 75 and end.steps == 6, end.said
    assert steps(out) == (6, 4), "it was saved"
    assert end.said.splitlines()[-1] == (
        f"glassformer: {out}: ended by a second signal, without saving: run the same command to "
        "resume after the last checkpoint"
    )
    assert live("pretrain", recipe, "--out", out).status == 0


def test_a_torn_line_of_the_metrics_is_taken_back(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    expected = whole(recipe)
    live("pretrain", recipe, "--out", tmp_path / "run", mischief=die_at(5))
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    live("pretrain", recipe, "--out", tmp_path / "run")
    same(result(tmp_path / "run"), expected)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=10_000)
    first = Life("pretrain", recipe, "--out", tmp_path / "run")
    assert first.hear()
    second = live("pretrain", recipe, "--out", tmp_path / "run")
    assert second.status == 1 and second.steps == 0
    assert second.said.count("\n") == 1 and "another process trains here" in second.said
    assert first.hear()
    first.kill()
    first.end()
    stopped = Life("pretrain", recipe, "--out", tmp_path / "run")  # the lock died with its owner
    assert stopped.hear()
    stopped.kill()
    stopped.end()
