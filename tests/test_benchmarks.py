"""Every benchmark of the documentation runs, in a tiny size, and prints what the pages show."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documented import FIGURES, NOT_RUN, README, inline_commands

FOLDER = Path(__file__).parent.parent / "benchmarks"
COMMANDS = [line for line in inline_commands(README + FIGURES) if line not in NOT_RUN]
NAMES = [line.split("/")[1] for line in COMMANDS if line.startswith("python benchmarks/")]
# One process imports torch and transformers, and forks for each benchmark.
RUNNER = """
import json, os, runpy, sys, tempfile
import glassformer, torch, transformers
sys.path.insert(0, sys.argv[1])
results = {}
for name in sys.argv[2:]:
    with tempfile.TemporaryFile("w+") as file:
        child = os.fork()
        if child == 0:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.argv = [name, "--tiny"]
            runpy.run_path(f"{sys.path[0]}/{name}", run_name="__main__")
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        file.seek(0)
        results[name] = status, file.read()
print(json.dumps(results))
"""


def run(*names: str) -> dict[str, str]:
    """What each of these benchmarks prints; none may fail."""
    command = [sys.executable, "-c", RUNNER, str(FOLDER), *names]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    results = json.loads(process.stdout)
    for name, (status, output) in results.items():
        assert status == 0 and output.strip(), f"{name}: {output}"
    return {name: output for name, (_, output) in results.items()}


@pytest.fixture(scope="module")
def outputs() -> dict[str, str]:
    return run(*(name for name in NAMES if name != "studio.py"))


@pytest.mark.slow
def test_forward_runs() -> None:
    run("forward.py")


@pytest.mark.slow
def test_those_of_the_documentation_run(outputs: dict[str, str]) -> None:
    assert len(outputs) > 5


@pytest.mark.slow
def test_that_of_the_studio_runs() -> None:
    if not shutil.which("chromium"):
        pytest.skip("no Chromium")
    run("studio.py")


@pytest.mark.slow
def test_the_soak_of_the_studio_runs() -> None:
    assert re.search(r"from \d+ MB to \d+ MB", run("soak.py")["soak.py"])


@pytest.mark.slow
def test_decode_shows_what_a_step_costs(outputs: dict[str, str]) -> None:
    lines = outputs["decode.py"].splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["64"])
    rows = [line.split() for line in lines[start : start + 9]]
    assert [row[0] for row in rows[:5]] == ["64", "128", "256", "512", "960"]
    assert [len(row) for row in rows[:5]] == [2, 3, 3, 3, 3]
    assert [" ".join(row[:-1]) for row in rows[6:]] == ["as they come", "sorted", "longest first"]
    assert all(float(row[1]) > 0 for row in rows[:5]) and all(float(r[-1]) > 0 for r in rows[6:])


@pytest.mark.slow
def test_scaling_tells_what_grows(outputs: dict[str, str]) -> None:
    output = outputs["scaling.py"]
    assert re.search(
        r"^time per token: the maximum is [\d.]+ times the minimum$", output, re.MULTILINE
    )
    memory = re.search(
        r"^memory per token: the maximum is ([\d.]+) times the minimum$", output, re.M
    )
    assert memory and float(memory[1]) < 1.2 and "peak memory" in output


@pytest.mark.slow
def test_finetune() -> None:
    output = run("finetune.py")["finetune.py"]
    assert re.findall(r"^(\S+): 8 steps", output, re.MULTILINE) == ["sst2", "mrpc", "ewt-pos", "qa"]
    assert output.count("  glassformer ") == output.count("  transformers ") == 4


@pytest.mark.slow
def test_twelve_tasks_have_the_same_answers() -> None:
    output = run("twelve_tasks.py")["twelve_tasks.py"]
    assert len(re.findall(r": \d+ and \d+ lines, [\d.]+ and [\d.]+ s$", output, re.M)) == 12


def test_the_page_of_twelve_tasks_shows_the_programs_that_are_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from twelve_programs import TASKS

    page = (FOLDER.parent / "docs" / "twelve-tasks.md").read_text()
    assert len(TASKS) == 12
    assert re.search(
        r"`python benchmarks/twelve_tasks.py[^`]*`, 2-core x86 CPU.*\d{4}-\d\d-\d\d", page
    )
    for task in TASKS:
        for program in (task.ours, task.theirs, task.command):
            assert program.strip() in page, task.name
        counts = [len([line for line in p.splitlines() if line]) for p in (task.ours, task.theirs)]
        row = rf"\| {re.escape(task.name)} \| {counts[0]} \| [\d.]+ \| {counts[1]} \| [\d.]+ \|"
        assert re.search(row, page), task.name


@pytest.mark.slow
def test_the_memory_of_a_checkpoint() -> None:
    output = run("checkpoint_memory.py")["checkpoint_memory.py"]
    assert len(re.findall(r": shard \d MB, resident memory rises by \d+ MB \(", output)) == 2


@pytest.mark.slow
def test_sharding_beside_a_plain_process() -> None:
    output = run("sharding.py")["sharding.py"]
    assert len(re.findall(r": plain [\d,]+ tokens/s, sharded [\d,]+ \([+-]", output)) == 2
