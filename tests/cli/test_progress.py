"""The time left of long work: live on a terminal, in plain lines elsewhere."""

import io
import json
import re
from types import SimpleNamespace

import pytest

from commands import glassformer
from glassformer import progress
from glassformer.cli import display
from glassformer.cli.console import Console
from glassformer.cli.display import Display
from glassformer.data.prepare import Progress, plain_size, prepare
from glassformer.progress import LiveLine, TimeLeft, duration, progress_bar
from glassformer.text.training import train_tokenizer
from glassformer.train.compare import _seconds_left
from glassformer.train.compare_plan import RunResult
from glassformer.train.evaluation import evaluate
from tiny import write_recipe


class Clock:
    """Stands until a test sets it."""

    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(display, "time", clock)
    return clock


def console(**options):
    return Console(file=io.StringIO(), width=120, **options)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_700, "1 h 1 min"),
     (86_400 * 2 + 3_600 * 4, "2 d 4 h")],
)  # fmt: skip
def test_durations_are_said_in_two_units(seconds, text):
    assert duration(seconds) == text


def test_time_left_is_that_of_the_pace_so_far(clock):
    left = TimeLeft(share=0.5)  # a resumed run: half of it was done before
    assert left(0.5) == ""
    clock.now += 60
    assert left(0.6) == "4 min left"
    clock.now += 60
    assert left(1.0) == "0 s left"


def test_a_pipe_gets_a_line_only_of_long_work(clock):
    screen = console(force_terminal=False)
    live = LiveLine(screen)
    live.begin("reading")
    assert not live.due()
    clock.now += progress.EVERY
    assert live.due()
    live.show("reading", 0.25, "7 documents")
    assert screen.file.getvalue() == "reading  7 documents  15 s left\n" and not live.due()


def test_a_terminal_has_one_live_line(clock):
    screen = console(force_terminal=True)
    live = LiveLine(screen)
    live.begin("reading")
    assert live.due()
    for share in (0.1, 0.5):
        clock.now += 10
        live.show("reading", share, "7 documents")
        live.bar.refresh()
    live.close()
    said = screen.file.getvalue()
    assert "7 documents  20 s left" in said and "\x1b[2K" in said  # it replaces itself


def test_a_step_shows_loss_rate_speed_memory_and_time_left(clock, monkeypatch):
    monkeypatch.setattr(display, "_memory", lambda: "1.5 GB")
    shown = Display()
    shown.console = shown.live.console = console(force_terminal=False)
    run = SimpleNamespace(
        recipe=SimpleNamespace(train=SimpleNamespace(steps=100)),
        trainer=SimpleNamespace(
            state=SimpleNamespace(
                progress=SimpleNamespace(step=0), train=SimpleNamespace(precision="float32")
            )
        ),
    )
    shown.begin(run)
    for number in (1, 2):
        clock.now += 6
        step = SimpleNamespace(number=number, tokens=1_200, loss=2.5, rate=3e-4)
        shown._step(step)
    first, second = shown.console.file.getvalue().splitlines()
    assert first.startswith("step 1/100  loss 2.5000  lr 0.0003") and first.endswith("9 min left")
    assert "  200 tokens/s  " in second and " 1.5 GB  9 min left" in second


def test_a_dry_run_says_how_long_the_run_takes(tmp_path):
    recipe = write_recipe(tmp_path)
    words = ("pretrain", recipe, "--out", tmp_path / "run", "--dry-run")
    time = json.loads(glassformer(*words, "--json"))["time"]
    assert time["step"] > 0 and time["evaluation"] > 0 and time["evaluations"] == 2
    assert time["total"] == pytest.approx(6 * time["step"] + 2 * time["evaluation"])
    plan = glassformer(*words, columns=200)
    assert re.search(r"\ntime +about \d+ s: 6 steps of [\d.e-]+ s", plan)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_evaluation_and_preparation_report_their_share(tmp_path):
    recipe = write_recipe(tmp_path)
    glassformer("pretrain", recipe, "--out", tmp_path / "run", "--train.steps", 1)
    reports = []
    evaluate(tmp_path / "run" / "model", recipe, report=lambda *each: reports.append(each))
    shares = [each.share for line, each in reports if line == "evaluating"]
    assert shares == sorted(shares) and shares[-1] == 1.0
    texts = tmp_path / "plain.txt"
    texts.write_text("a b c\n" * 9)
    tokenizer = train_tokenizer(["a b c"], "chars", purpose="decoder")
    files = {"plain.txt": texts}
    steps = prepare(["a b c"] * 9, tokenizer, tmp_path / "store", kind="text", files=files)
    assert [each.share for each in steps] == [1.0]
    assert plain_size([tmp_path / "x.txt.gz"], "text") is None


def test_a_comparison_says_what_is_left_of_all_runs():
    done = RunResult(1, 60.0, 1, {})
    assert _seconds_left([], [None, None]) is None
    assert _seconds_left([done], [None, done, None]) == 120.0
    assert _seconds_left([done, done], [done]) is None


def test_progress_without_a_size_still_shows_what_was_read(clock):
    shown = Display()
    shown.console = shown.live.console = console(force_terminal=False)
    shown.report("preparing train", Progress(0, 0, 0))
    clock.now += progress.EVERY
    shown.report("preparing train", Progress(1, 9, 2_000))
    assert shown.console.file.getvalue() == "preparing train  1 document  2,000 tokens\n"


def test_python_calls_show_the_same_line(clock, capsys):
    with progress_bar("embed", 4) as advance:
        advance(1, "")
        clock.now += progress.EVERY
        advance(1, "")
        advance(2, "loss 1.5")
    said = capsys.readouterr().err.splitlines()
    assert said == ["embed  2/4  5 s left", "embed  4/4  loss 1.5  0 s left"]
    with progress_bar("embed", 4, shown=False) as advance:
        advance(4, "")
    assert capsys.readouterr().err == ""
