"""TensorBoard's curves are those of metrics.jsonl, however often the run was interrupted."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import at_step, live, signal_self, write_recipe
from spoiling import rows_of, spoil

from commands import glassformer, refused

FLAG = ("--train.trackers", "tensorboard")


def curves(run: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(run / "tensorboard")).Reload()
    return {
        name: [(point.step, point.value) for point in log.Scalars(name)]
        for name in log.Tags()["scalars"]
    }


def check_same(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Every value of every line of the metrics, once."""
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [event for event in events if "loss" in event]
    found = curves(run)
    pairs = {"loss": "loss", "norm": "gradient_norm", "rate": "learning_rate"}
    expected: dict[str, list[Any]] = {
        f"train/{there}": [(event["step"], event[here]) for event in steps]
        for here, there in pairs.items()
    }
    for event in events:
        for name, value in event.get("valid", {}).items():
            expected.setdefault(f"valid/{name}", []).append((event["step"], value))
    assert found.keys() == expected.keys() | {"train/tokens_per_second"}
    for name, points in expected.items():
        assert [step for step, _ in found[name]] == [step for step, _ in points], name
        assert [value for _, value in found[name]] == pytest.approx([v for _, v in points])
    return found


@pytest.mark.slow
def test_a_run_that_was_killed_resumes_with_the_same_curves(tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path, save_every=5, steps=16), tmp_path / "run"
    words = ("pretrain", recipe, "--out", run, *FLAG)
    kill = partial(at_step, 9, partial(signal_self, signal.SIGKILL))
    assert live(*words, mischief=kill).status == -signal.SIGKILL
    stop = partial(at_step, 13, partial(signal_self, signal.SIGTERM))
    assert live(*words, mischief=stop).status == 75
    assert len(curves(run)["train/loss"]) in (13, 14)
    assert live(*words).status == 0
    speeds = check_same(run)["train/tokens_per_second"]
    assert all(0 < speed < 1e8 for _, speed in speeds)


def test_a_rollback_hides_the_bad_steps(tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path, save_every=3), tmp_path / "run"
    bad = rows_of(recipe, tmp_path / "look", 4)
    end = live("pretrain", recipe, "--out", run, *FLAG, mischief=partial(spoil, bad, "nan"))
    assert end.status == 0 and "rolled back to step 4" in end.said, end.said
    check_same(run)


def test_each_loss_of_two_has_its_curve(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "encoder", objective="masked_lm_nsp", steps=3)
    glassformer("pretrain", recipe, "--out", tmp_path / "run", *FLAG, "--tokenizer.kind",
                "wordpiece", "--tokenizer.vocab_size", 200)  # fmt: skip
    found = curves(tmp_path / "run")
    both = zip(found["train/loss_labels"], found["train/loss_next_sentence_labels"], strict=True)
    assert [a + b for (_, a), (_, b) in both] == pytest.approx([v for _, v in found["train/loss"]])


def test_nothing_is_written_unless_asked_for(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=2)
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()
    glassformer("pretrain", recipe, "--out", tmp_path / "run", *FLAG, "--train.steps", 4)
    assert [step for step, _ in curves(tmp_path / "run")["train/loss"]] == [3, 4]


def test_what_to_install_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    recipe = write_recipe(tmp_path)
    said = refused("pretrain", recipe, "--out", tmp_path / "run", *FLAG, code=2)
    assert "pip install 'glassformer[log]'" in said
    assert not (tmp_path / "run").exists()
