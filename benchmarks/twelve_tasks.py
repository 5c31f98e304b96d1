"""Twelve small tasks in glassformer and in transformers or sentence-transformers, side by side.

    python benchmarks/twelve_tasks.py           write docs/twelve-tasks.md; --rounds 1 is quicker
    python benchmarks/twelve_tasks.py --tiny    each once; write nothing

Each program runs in a process of its own, beside the shipped models as Hugging Face folders:
imports, weights and answer count. The best of some rounds, one after the other, on one thread. Both
sides print their answer, and where the task has one right answer, the two must be equal.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import glassformer as gf
from twelve_programs import TASKS, Task

PAGE = Path(__file__).parents[1] / "docs" / "twelve-tasks.md"
INTRODUCTION = """\
The same in glassformer and in transformers or sentence-transformers ({versions}):
lines of Python (formatted by ruff), and the processor seconds of a whole process from its start to
the answer, with imports and loading, on one thread (rounds: {rounds}; the best counts).
Other work on the machine does not count in them. The models are those that ship with glassformer,
saved as Hugging Face folders; where there is one right answer, both print it. The peer's
fine-tuning is a PyTorch loop, as its Trainer needs one more package. The programs are below."""


def prepare(folder: Path) -> None:
    """Models and data for all tasks."""
    torch.set_num_threads(1)  # more would wait for each other on a busy machine
    for name, shipped in (("encoder", "gf-encoder"), ("decoder", "gf-decoder"),
                          ("translator", "gf-en-ru")):  # fmt: skip
        gf.load(shipped, dtype="float32").save(folder / name)
    things = ("film", "book", "play", "song", "story", "boat", "house", "garden", "river", "dog")
    said = {"good": ("warm", "clever", "lovely", "bright", "fine"),
            "bad": ("dull", "empty", "ugly", "stupid", "poor")}  # fmt: skip
    rows = [
        (f"the {thing} was {word}, and {more} {again}", label)
        for label, words in said.items() for thing in things for word in words for more in words
        for again in ("indeed", "too")
    ]  # fmt: skip
    for name, part in (("train", rows[::2][:400]), ("valid", rows[1::10])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *part])
    (folder / "texts.txt").write_text("\n".join(text for text, _ in rows[::5]) + "\n")
    training = gf.finetune(
        "gf-encoder", "classification", train=folder / "train.csv", valid=folder / "valid.csv",
        out=folder / "training", changes={"train.epochs": 1},
    )  # fmt: skip
    training.run(progress=False).save(folder / "classifier")


def processor_seconds() -> float:
    """Of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program: str, folder: Path) -> tuple[float, str]:
    """Processor seconds and answer of a program, in a process of its own."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "OMP_NUM_THREADS": "1"}
    for name in ("run", "theirs"):
        subprocess.run(["rm", "-rf", folder / name], check=True)
    begin = processor_seconds()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True
    )
    seconds = processor_seconds() - begin
    if done.returncode:
        raise SystemExit(f"{program}\n{done.stderr}")
    return seconds, done.stdout.strip()


def lines(program: str) -> int:
    return sum(bool(line.strip()) for line in program.splitlines())


def measure(rounds: int) -> list[tuple[Task, float, float]]:
    """The tasks with the seconds of both sides."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder)
        for task in TASKS:
            ours, theirs = [], []
            for _ in range(rounds):
                ours.append(run(task.ours, folder))
                theirs.append(run(task.theirs, folder))
            answers = ours[0][1], theirs[0][1]
            if task.same and answers[0] != answers[1]:
                raise SystemExit(f"{task.name}: {answers[0]!r} and {answers[1]!r}")
            rows.append((task, min(ours)[0], min(theirs)[0]))
            count = f"{lines(task.ours)} and {lines(task.theirs)} lines"
            print(
                f"{task.name}: {count}, {min(ours)[0]:.1f} and {min(theirs)[0]:.1f} s", flush=True
            )
    return rows


def page(rows: list[tuple[Task, float, float]], rounds: int) -> str:
    """The page of the documentation."""
    import sentence_transformers
    import transformers

    versions = f"transformers {transformers.__version__}, sentence-transformers "
    versions += sentence_transformers.__version__
    text = [
        "# Twelve tasks", "",
        INTRODUCTION.format(versions=versions, rounds=rounds), "",
        f"`python benchmarks/twelve_tasks.py --rounds {rounds}`, 2-core x86 CPU, shared, "
        f"{datetime.date.today()}", "",
        "| task | lines | seconds | their lines | their seconds | one command |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for task, ours, theirs in rows:
        command = "yes" if task.command else "no"
        counts = f"{lines(task.ours)} | {ours:.1f} | {lines(task.theirs)} | {theirs:.1f}"
        text.append(f"| {task.name} | {counts} | {command} |")
    sums = [sum(lines(t.ours) for t, _, _ in rows), sum(s for _, s, _ in rows),
            sum(lines(t.theirs) for t, _, _ in rows), sum(s for _, _, s in rows)]  # fmt: skip
    text.append(f"| all | {sums[0]} | {sums[1]:.1f} | {sums[2]} | {sums[3]:.1f} | |")
    for number, (task, _, _) in enumerate(rows, 1):
        text += ["", f"## {number}. {task.name}", ""]
        if task.command:
            text += ["```bash", task.command, "```", ""]
        for program, title in ((task.ours, "glassformer"), (task.theirs, "the other library")):
            text += [f"With {title}:", "", "```python", program.strip(), "```", ""]
        text.pop()
    return "\n".join(text) + "\n"


def main() -> None:
    about = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = measure(1 if options.tiny else options.rounds)
    if not options.tiny:
        PAGE.write_text(page(rows, options.rounds))


if __name__ == "__main__":
    main()
