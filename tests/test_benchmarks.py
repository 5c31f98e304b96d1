"""What benchmarks print, beyond that they run: that all in the README do, its test sees to."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


def said(name, *words):
    """What a benchmark prints when it is called with these words."""
    command = [sys.executable, str(FOLDER / name), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_decode_shows_what_a_step_costs():
    told = said("decode.py", "--tiny", "--only", "growth", "--rounds", "1")
    rows = [line.split() for line in told.splitlines()[3:]]
    assert [row[0] for row in rows[:5]] == ["64", "128", "256", "512", "960"]
    assert [len(row) for row in rows[:5]] == [2, 3, 3, 3, 3]
    assert [" ".join(row[:-1]) for row in rows[6:]] == ["as they come", "sorted", "longest first"]
    assert all(float(row[1]) > 0 for row in rows[:5]) and all(float(r[-1]) > 0 for r in rows[6:])


def test_scaling_tells_what_grows():
    told = said("scaling.py", "--tiny")
    assert re.search(r"^time a token: the most is [\d.]+ times the least$", told, re.MULTILINE)
    memory = re.search(r"^memory a token: the most is ([\d.]+) times the least$", told, re.M)
    assert float(memory[1]) < 1.2 and "peak memory" in told


@pytest.mark.slow
def test_finetune():
    told = said("finetune.py", "--tiny")
    assert re.findall(r"^(\S+): 8 steps", told, re.MULTILINE) == ["sst2", "mrpc", "ewt-pos", "qa"]
    assert told.count("  glassformer ") == told.count("  transformers ") == 4
