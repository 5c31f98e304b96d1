"""Inputs for bulk jobs, their commands in real processes, and what is in an output folder."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tiny import WORDS

MODEL = "gf-encoder"
COMMAND = [sys.executable, "-W", "error", "-m", "glassformer", "map"]


def write_rows(path: Path, count: int, seed: int = 0) -> Path:
    draw, words = random.Random(seed), WORDS.split()
    with path.open("w") as file:
        for _ in range(count):
            text = " ".join(draw.choices(words, k=draw.randint(2, 6)))
            file.write(json.dumps({"text": text}) + "\n")
    return path


def start(task: str, source: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    command = [*COMMAND, task, str(source), str(output), "--model", MODEL, *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    out, err = process.communicate()
    assert process.returncode == code, err
    return out + err


def outputs(folder: Path) -> dict[str, bytes]:
    """The files that a job has written, but for the manifest, which has times of other files."""
    files = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in files if path.name not in ("_manifest.json", ".lock"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}


class Killer:
    """Runs a job again and again, each time killed at some moment, until so many were killed."""

    def __init__(
        self, source: Path, folder: Path, *options: str, processes: int = 1, seed: int = 0
    ) -> None:
        self.source, self.folder, self.processes = source, folder, processes
        self.options = (*options, "--processes", str(processes))
        self.draw = random.Random(seed)
        self.kills = self.finished = self.moved = 0
        self.whole = folder / "whole"
        finish(self._start(self.whole))
        began = time.monotonic()
        finish(self._start(self.whole))  # nothing is left to compute
        self.usual = time.monotonic() - began
        self.expected = outputs(self.whole)

    def _start(self, output: Path) -> subprocess.Popen[str]:
        return start("tokenize", self.source, output, "--column", "text", *self.options)

    def go(self, kills: int) -> None:
        while self.kills < kills or not self.finished:
            output = self.folder / f"killed-{self.finished}"
            before = self._state(output)
            process = self._start(output)
            if self.kills < kills:
                # The plan, which reads all input, has to be finished once.
                most = self.usual * (3 if (output / "_manifest.json").exists() else 8)
                time.sleep(self.draw.uniform(0, most))
                os.kill(process.pid, signal.SIGKILL)
            said = process.communicate()[1]
            assert process.returncode in (0, -signal.SIGKILL), said
            self.kills += process.returncode != 0
            self._check(output, before, finished=process.returncode == 0)

    def _state(self, output: Path) -> dict[str, tuple[int, int]]:
        """Which file each finished shard is: one that is written again is another."""
        stats = {path.name: path.stat() for path in output.glob("part-*")}
        return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}

    def _check(self, output: Path, before: dict[str, tuple[int, int]], *, finished: bool) -> None:
        now = self._state(output)
        assert before.items() <= now.items(), "a finished shard was computed again"
        assert len([*output.glob(".part-*")]) <= self.processes, "more than one shard was begun"
        self.moved += len(now) > len(before)
        if finished:
            assert outputs(output) == self.expected
            self.finished += 1
