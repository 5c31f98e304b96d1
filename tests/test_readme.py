"""What the README says, runs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from commands import glassformer
from documented import FIGURES, NOT_RUN, README, ROOT, inline_commands
from furnished import TEXT, furnish
from glassformer.pretrained import shipped, shipped_runs
from ports import free_port


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    """Each command of the README once, in its order, without those of NOT_RUN."""
    fenced = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    lines = dict.fromkeys(fenced + inline_commands(README))
    return [line for line in lines if line and line not in NOT_RUN]


def test_it_is_short() -> None:
    assert len(README.split()) <= 1_000


def test_python_blocks_run_one_after_the_other(tmp_path: Path) -> None:
    script = "\n".join(blocks("python"))
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    filled, shape, change = run.stdout.split("\n", 2)
    assert "table" in filled and shape == "torch.Size([4, 9, 9])"
    assert len(re.findall(r"\d\.\d+", change)) == 9


def test_every_command_is_run() -> None:
    """The commands of glassformer by the test below, the benchmarks by test_benchmarks.py."""
    for command in commands():
        assert command.startswith("glassformer ") or re.fullmatch(
            r"python benchmarks/\w+\.py", command
        ), f"no test runs `{command}`"


def test_make_run_serves_the_models_that_come_along() -> None:
    port = free_port()
    words = ["make", "--silent", "run", f"STUDIO=--no-open --port {port}"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith(f"http://127.0.0.1:{port}/")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/models") as answer:
                served = [each["name"] for each in json.load(answer)["models"]]
            assert served == [*shipped(), *shipped_runs()] and served
        finally:
            process.terminate()


def run_all(lines: list[str], *more: str) -> None:
    for line in lines:
        words = shlex.split(line)[1:]
        words += ["--train.steps", "2"] if words[0] in ("pretrain", "finetune") else []
        assert glassformer(*words, *more).strip(), line


def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with a table of reviews; the demo is run by cli/test_cli.py."""
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = [line for line in commands() if line.startswith("glassformer")]
    assert len(lines) > 4
    run_all([line for line in lines if line != "glassformer demo"])


@pytest.mark.slow
def test_the_recipes_of_the_measurements_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(tmp_path)
    recipes = [line for line in inline_commands(FIGURES) if line.startswith("glassformer")]
    assert len(recipes) > 1
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    (tmp_path / "recipes" / "tinyshakespeare").mkdir()
    (tmp_path / "recipes" / "tinyshakespeare" / "input.txt").write_text(TEXT * 40)
    monkeypatch.chdir(tmp_path)
    run_all(recipes, "--train.micro_batch_tokens", "768")  # one of them is for a GPU


def test_measurements_are_those_of_the_documentation() -> None:
    rows = [line for line in README.splitlines() if re.search(r"\d{4}-\d\d-\d\d", line)]
    assert len(rows) == 6
    for row in rows:
        assert row in FIGURES.splitlines(), row


def test_files_it_names_are_there() -> None:
    for name in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`(\w+\.py)`", README):
        assert list((ROOT / "src").rglob(name)), name


def test_quarantines_has_a_row_for_every_skip() -> None:
    rows = (ROOT / "QUARANTINES.md").read_text()
    for command in NOT_RUN:
        assert command in rows
    for path in (ROOT / "tests").rglob("test_*.py"):
        marks = re.findall(
            r"mark\.(?:skip|xfail|skipif)|pytest\.(?:skip|importorskip)\(", path.read_text()
        )
        assert not marks or path.name in rows, f"{path.name} skips without a row in QUARANTINES.md"
