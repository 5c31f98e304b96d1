"""One process or two: the same batches, the same loss; a run may change between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness import at_step, damaged, live, metrics, result, signal_self, steps, write_recipe
from ranks import ranks

CLOSE = 1e-6


two = partial(ranks, 2)


def check_close(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [each["step"] for each in found] == [each["step"] for each in expected]
    for one, other in zip(found, expected, strict=True):
        if "loss" in other:
            assert one["loss"] == pytest.approx(other["loss"], rel=CLOSE)
            assert one["norm"] == pytest.approx(other["norm"], rel=1e-4)
        else:
            assert one["valid"]["loss"] == pytest.approx(other["valid"]["loss"], rel=CLOSE)
            assert one["valid"]["answers"] == other["valid"]["answers"]


def facts(run: Path, step: int) -> dict[str, Any]:
    path = run / "checkpoints" / f"step-{step:08d}" / "trainer.json"
    return {name: each for name, each in json.loads(path.read_text()).items()
            if name in ("step", "tokens", "rows", "skipped")}  # fmt: skip


# With dropout: it is a row's own, whoever takes the row. The part for testing is one row:
# the second process has nothing to evaluate.
@pytest.mark.slow
@pytest.mark.parametrize("family", ["seq2seq", "encoder", "decoder"])
def test_two_processes_learn_the_same(family: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, family, micro_batches=4, valid=1)
    assert live("pretrain", recipe, "--out", tmp_path / "one").status == 0
    ends = two(recipe, tmp_path / "two")
    assert [end.status for end in ends] == [0, 0], ends
    check_close(metrics(tmp_path / "two"), metrics(tmp_path / "one"))
    assert facts(tmp_path / "two", 12) == facts(tmp_path / "one", 12)
    again = two(recipe, tmp_path / "again")
    assert [end.status for end in again] == [0, 0]
    assert result(tmp_path / "again") == result(tmp_path / "two"), "not the same bits"


@pytest.mark.slow
def test_other_batches_would_be_seen(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=4)
    live("pretrain", recipe, "--out", tmp_path / "one")
    live("pretrain", recipe, "--out", tmp_path / "other", "--train.micro_batches", 2)
    with pytest.raises(AssertionError):
        check_close(metrics(tmp_path / "other"), metrics(tmp_path / "one"))


@pytest.mark.slow
def test_a_run_may_change_its_number_of_processes(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=2)
    live("pretrain", recipe, "--out", tmp_path / "one")
    expected = metrics(tmp_path / "one")
    die = partial(at_step, 5, partial(signal_self, signal.SIGKILL))
    out = tmp_path / "more"
    assert live("pretrain", recipe, "--out", out, mischief=die).status == -9
    assert [end.status for end in two(recipe, out)] == [0, 0]
    check_close(metrics(out), expected)
    fewer = tmp_path / "fewer"
    assert [e.status for e in two(recipe, fewer, "--train.steps", 6)] == [0, 0]
    assert live("pretrain", recipe, "--out", tmp_path / "six", "--train.steps", 6).status == 0
    assert live("pretrain", recipe, "--out", fewer).status == 0
    assert live("pretrain", recipe, "--out", tmp_path / "six").status == 0
    check_close(metrics(fewer), metrics(tmp_path / "six"))


def stop_in_step(step: int) -> None:
    """The second process never logs: it counts its own steps."""
    from glassformer.train import trainer as session

    fit = session.fit

    def counted(*given: Any) -> Any:
        for done in fit(*given):
            if done.number == step:  # from the scheduler, and once more from torchrun
                signal_self(signal.SIGTERM)
                signal_self(signal.SIGTERM)
            yield done

    session.fit = counted


def test_one_that_is_asked_stops_all(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=2, save_every=100)
    ends = two(recipe, tmp_path / "run", mischief=partial(stop_in_step, 4))
    assert [end.status for end in ends] == [75, 75], ends
    assert (tmp_path / "run" / "checkpoints" / "step-00000005").is_dir()
    assert [end.status for end in two(recipe, tmp_path / "run")] == [0, 0]


def test_rows_that_do_not_divide(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=3)
    for end in two(recipe, tmp_path / "run"):
        assert end.status == 2 and "train.micro_batches = 3 over 2 processes" in end.said
    assert not (tmp_path / "run" / "data").exists(), "it was prepared in vain"


PUNISHED = """
import os, signal, sys
from pathlib import Path
import warnings; warnings.simplefilter("error")
from glassformer.train import trainer as session
fit, flag = session.fit, Path(sys.argv.pop(1))
def once(*given):
    for done in fit(*given):
        if done.number == 5 and os.environ["RANK"] == "1" and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield done
session.fit = once
from glassformer.cli.main import main
main()
"""


@pytest.mark.slow
def test_torchrun_starts_again_by_itself(tmp_path: Path) -> None:
    """Real torchrun; its second process kills itself in step 5, once."""
    recipe = write_recipe(tmp_path, micro_batches=2)
    script, out = tmp_path / "punished.py", tmp_path / "run"
    script.write_text(PUNISHED)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts",
        "1", "--standalone", str(script), str(tmp_path / "flag"), "pretrain", str(recipe), "--out",
        str(out),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "flag").exists() and "resuming after step 4" in done.stderr
    assert damaged(out) == []
    assert [end.status for end in two(recipe, tmp_path / "whole")] == [0, 0]
    assert result(out) == result(tmp_path / "whole")


@pytest.mark.slow
def test_the_command_of_the_readme(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=2)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
        "-m", "glassformer", "pretrain", str(recipe), "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert live("pretrain", recipe, "--out", tmp_path / "one").status == 0
    check_close(metrics(tmp_path / "run"), metrics(tmp_path / "one"))


@pytest.mark.slow
def test_torchrun_passes_a_signal_on_that_its_processes_have_had(tmp_path: Path) -> None:
    """As when a job scheduler signals all processes of a job, torchrun among them."""
    recipe = write_recipe(
        tmp_path, micro_batches=2, steps=100_000, save_every=100_000, evaluate_every=100_000
    )
    out = tmp_path / "run"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
        "-m", "glassformer", "pretrain", str(recipe), "--out", str(out),
    ]  # fmt: skip
    agent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while steps(out)[0] < 3:
        assert agent.poll() is None
        time.sleep(0.1)
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    assert len(children) == 2
    for pid in (*children, agent.pid):
        os.kill(int(pid), signal.SIGINT)
    _, said = agent.communicate(timeout=120)
    last = steps(out)
    assert f"saved after step {last[0]:,}" in said and last[0] == last[1], said
    assert "ended by a second signal" not in said and damaged(out) == []
