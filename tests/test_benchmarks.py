"""The benchmarks run: each at its smallest, and says what it is to say."""

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def said(monkeypatch, capsys):
    """What a benchmark prints when it is called with these words."""

    def run(name, *words):
        monkeypatch.syspath_prepend(FOLDER)
        monkeypatch.setattr("sys.argv", [name, *words])
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_senses(said):
    lines = said("senses.py", "--tiny").splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["after block 0", "after block 1"]
    for line in lines[2:]:
        right = re.search(r"chosen on 2 pairs .* right on 2 others: ([\d.]+)%", line)
        assert right is not None and 0 <= float(right[1]) <= 100
    assert len(lines) == 4


def test_documents(said):
    told = said("documents.py", "--tiny", "--recipe", "reviews-hierarchy")
    assert "cv2.txt: pos; it says " in told and "words: " in told
    *_, folds, mean = told.splitlines()
    assert len(folds.split()) == 1 + 3
    assert re.fullmatch(r" +[\d.]+ ± [\d.]+ % of 3 folds, \d+ s each", mean)


def test_decode_shows_what_a_step_costs(said):
    told = said("decode.py", "--tiny", "--only", "growth", "--rounds", "1")
    rows = [line.split() for line in told.splitlines()[3:]]
    assert [row[0] for row in rows[:5]] == ["64", "128", "256", "512", "960"]
    assert [len(row) for row in rows[:5]] == [2, 3, 3, 3, 3]
    assert [" ".join(row[:-1]) for row in rows[6:]] == ["as they come", "sorted", "longest first"]
    assert all(float(row[1]) > 0 for row in rows[:5]) and all(float(r[-1]) > 0 for r in rows[6:])


@pytest.mark.slow
def test_finetune(said):
    told = said("finetune.py", "--tiny")
    assert re.findall(r"^(\S+): 8 steps", told, re.MULTILINE) == ["sst2", "mrpc", "ewt-pos", "qa"]
    assert told.count("  glassformer ") == told.count("  transformers ") == 4
