"""Inputs for bulk jobs, their commands in real processes, and what is in an output folder."""

from __future__ import annotations

import json
import multiprocessing
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


def _live(words: list[str], log: str) -> None:
    """In a forked process, which has imported the package already."""
    from glassformer.cli.main import main

    with Path(log).open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["glassformer", *words]
    main()


class Killer:
    """Runs a job again and again, each time killed at some moment, until so many were killed.

    Args:
        share: of the time that the whole job takes, the longest that it is left to run
    """

    def __init__(
        self, source: Path, folder: Path, *options: str, processes: int = 1, share: float = 0.3,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.source, self.folder, self.processes, self.share = source, folder, processes, share
        self.options = (*options, "--processes", str(processes))
        self.draw = random.Random(seed)
        self.kills = self.finished = self.moved = 0
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["glassformer.cli.map_files", "glassformer.bulk.run"])
        self._life(folder / "first", None)
        began = time.monotonic()
        assert self._life(folder / "whole", None) == 0
        self.usual = time.monotonic() - began
        self.expected = outputs(folder / "whole")
        assert outputs(folder / "first") == self.expected

    def _life(self, output: Path, most: float | None) -> int:
        """Run the command; kill it after at most so many seconds."""
        words = ["map", "tokenize", str(self.source), str(output), "--model", MODEL]
        log = self.folder / "log"
        arguments = ([*words, "--column", "text", *self.options], str(log))
        process = self.context.Process(target=_live, args=arguments)
        process.start()
        if most is not None:
            time.sleep(self.draw.uniform(0, most))
            process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), log.read_text()
        return process.exitcode

    def go(self, kills: int) -> None:
        while self.kills < kills or not self.finished:
            output = self.folder / f"killed-{self.finished}"
            before = self._state(output)
            # The plan, which reads all input, has to be finished once.
            share = self.share if (output / "_manifest.json").exists() else 0.5
            code = self._life(output, share * self.usual if self.kills < kills else None)
            self.kills += code != 0
            self._check(output, before, finished=code == 0)

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
