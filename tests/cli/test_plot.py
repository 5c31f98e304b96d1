"""Loss curves in the terminal and as pictures, of runs in any state."""

import json
import math
import subprocess
import sys

import pytest

from commands import glassformer, refused
from glassformer.cli.plot import AXIS, Canvas, read
from glassformer.train.curves import smoothed

BRAILLE = {chr(0x2800 + bits) for bits in range(1, 256)}


def write_run(folder, steps=200, start=4.0, valid=(50, 100, 150, 200), tail=""):
    folder.mkdir(parents=True)
    lines = []
    for step in range(1, steps + 1):
        loss = 1 + (start - 1) * math.exp(-step / 40) + 0.05 * (-1) ** step
        lines.append({"step": step, "loss": loss, "losses": {"labels": loss}, "norm": 1.0})
        if step in valid:
            lines.append({"step": step, "valid": {"loss": loss + 0.2, "accuracy": 0.5}})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + tail)
    return folder


def test_a_curve_goes_down_and_validation_is_marked(tmp_path):
    said = glassformer("plot", write_run(tmp_path / "one"))
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    picture = lines[:16]
    assert any(BRAILLE & set(line) for line in picture)
    assert sum(line.count("●") for line in picture) == 4
    first = [min((i for i, c in enumerate(line) if c in BRAILLE), default=99) for line in picture]
    assert first[0] < 20 and first[-1] > 20  # high at the left, low at the right
    labels = [float(line[:AXIS]) for line in picture if line[:AXIS].strip()]
    assert labels == sorted(labels, reverse=True)
    assert "200 steps" in lines[16]
    assert "one" in lines[17] and "step 200" in lines[17] and "at 199" not in lines[17]


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_a_picture_fits_the_terminal(tmp_path, columns):
    said = glassformer("plot", write_run(tmp_path / "one"), columns=columns)
    assert max(map(len, said.splitlines()[:17])) <= columns


def test_several_runs_have_their_names_and_signs(tmp_path):
    said = glassformer(
        "plot", write_run(tmp_path / "one"), write_run(tmp_path / "two", 300, 3.0, (80, 290))
    )
    assert "one" in said and "two" in said and "●" in said and "▲" in said
    assert "300 steps" in said


@pytest.mark.parametrize(
    "tail",
    ['{"step": 201, "lo', "\x00\x00\x00", "null\n[]\n7\n", '{"step": 201, "loss": NaN}\n', "\xff"],
)
def test_a_damaged_last_line_is_left_out(tmp_path, tail):
    assert glassformer("plot", write_run(tmp_path / "a" / "r", tail=tail)) == glassformer(
        "plot", write_run(tmp_path / "b" / "r")
    )


def test_a_run_of_one_step_is_a_point(tmp_path):
    said = glassformer("plot", write_run(tmp_path / "one", 1))
    assert "1 steps" in said and "step 1," in said


def test_svg_and_png(tmp_path):
    run, other = write_run(tmp_path / "one"), write_run(tmp_path / "two", valid=())
    said = glassformer("plot", run, other, "--out", tmp_path / "a.svg")
    assert said == f"{tmp_path / 'a.svg'}\n"
    assert "<svg" in (tmp_path / "a.svg").read_text()
    glassformer("plot", run, "--out", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_refused_in_one_line(tmp_path):
    run = write_run(tmp_path / "one")
    assert "write the folder of a run" in refused("plot", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "metrics.jsonl").write_text("")
    assert "no step in it yet" in refused("plot", tmp_path / "empty")
    assert "ends in .png or .svg" in refused("plot", run, "--out", tmp_path / "a.gif", code=2)
    assert "there is no folder" in refused("plot", run, "--out", tmp_path / "no" / "a.png", code=2)


def test_without_matplotlib_it_says_what_to_install(tmp_path):
    run = write_run(tmp_path / "one")
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from glassformer.cli.main import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "plot", str(run), "--out", str(tmp_path / "a.png")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "pip install 'glassformer[plot]'" in done.stderr


def test_smoothing_keeps_the_mean_and_calms():
    line = [(float(i), 1.0 + (-1) ** i) for i in range(500)]
    found = smoothed(line)
    assert [step for step, _ in found] == [step for step, _ in line]
    inner = [loss for _, loss in found[10:-10]]
    assert max(inner) - min(inner) < 0.4
    assert smoothed(line[:20]) == line[:20]  # too few to smooth


def test_dots_are_where_they_should_be():
    canvas = Canvas(2, 1)
    for x, y in ((0, 1), (1, 0)):
        canvas.dot(x, y, "")
    assert [line.plain for line in canvas.lines()] == ["⠁⢀"]
    canvas.mark(0, 0, "●", "")
    assert [line.plain for line in canvas.lines()] == ["●⢀"]


def test_steps_that_were_redone_count_once(tmp_path):
    """The log of a run that was taken up again holds each step once; a reader need not care."""
    run = write_run(tmp_path / "one", 5)
    assert [step for step, _ in read(run).train] == [1, 2, 3, 4, 5]
