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

from furnished import TEXT, furnish
from glassformer.pretrained import shipped
from ports import free_port
from verbs import glassformer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
NOT_RUN = {  # QUARANTINES.md says why
    "make docs", "make test", "python benchmarks/forward.py --cuda",
    "python benchmarks/decode.py --cuda", "glassformer studio",
    "glassformer studio copy", "glassformer studio runs/tiny",
    "make run",  # the test below
}  # fmt: skip


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def in_order() -> list[str]:
    fenced = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    inline = re.findall(r"`((?:python|glassformer|make) [^`]+)`", README)
    return [each for each in dict.fromkeys(fenced + inline) if each and each not in NOT_RUN]


def test_python_blocks_run_one_after_the_other(tmp_path: Path) -> None:
    script = "\n".join(blocks("python"))
    assert script.count("\n") > 40
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "tensor(0.76" in run.stdout or "tensor(0.77" in run.stdout
    assert float(re.search(r"loss ([\d.]+)", run.stdout)[1]) < 1.0
    assert (tmp_path / "copy" / "model.safetensors").exists()
    assert "Content-Security-Policy" in (tmp_path / "head.html").read_text()


def test_every_command_is_run() -> None:
    """The commands of glassformer by the test below, the benchmarks by test_benchmarks.py."""
    for command in in_order():
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
            assert served == list(shipped()) and served
        finally:
            process.terminate()


def test_verbs_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with what the text speaks of: a model, texts, pairs, reviews, its recipes."""
    furnish(tmp_path, *blocks("toml"))
    verbs = [command for command in in_order() if command.startswith("glassformer")]
    assert len(verbs) > 5
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    (tmp_path / "recipes" / "tinyshakespeare").mkdir()
    (tmp_path / "recipes" / "tinyshakespeare" / "input.txt").write_text(TEXT * 40)
    monkeypatch.chdir(tmp_path)
    for command in verbs:
        words = shlex.split(command)[1:]
        short = "recipes/" in command or words[0] in ("finetune", "compare")
        words += ["--train.steps", "2"] if short else []
        words += (
            ["--train.micro_batch_tokens", "768"] if "recipes/" in command else []
        )  # one of them is a GPU's
        assert glassformer(*words).strip(), command


def test_no_figure_is_left_to_be_filled_in() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| BERT-base")]
    assert len(rows) >= 3 and all(
        "2-core" in line or "H200" in line or "above" in line for line in rows
    )
    assert "FIGURES" not in README and "TODO" not in README


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
