"""kill -9 at any moment: no row is lost, none is there twice, and the bytes are the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from bulkjobs import Killer, finish, outputs, start, write_rows


def test_kills_at_random_moments(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 3_000)
    with source.open("a") as file:
        file.write('{"text": 5}\n{"text"\n{"text": "the end"}\n')
    killer = Killer(source, tmp_path, "--shard-rows", "100")
    assert len(killer.expected) == 32 and len(killer.expected["_errors/part-00030.jsonl"]) > 50
    killer.go(10)
    assert killer.moved >= 1


@pytest.mark.slow
def test_300_kills_over_a_million_rows(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 1_000_000)
    killer = Killer(source, tmp_path, "--shard-rows", "1000", share=0.02, seed=1)
    lines = b"".join(data for name, data in sorted(killer.expected.items())).splitlines()
    with source.open("rb") as file:
        assert [json.loads(line)["text"] for line in lines] == [
            json.loads(line)["text"] for line in file
        ]
    killer.go(300)
    assert killer.moved >= 60


@pytest.mark.slow
def test_kills_with_several_processes(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", 20_000)
    killer = Killer(source, tmp_path, "--shard-rows", "200", processes=2, seed=2)
    killer.go(10)
    finish(start("tokenize", source, tmp_path / "one", "--column", "text", "--shard-rows", "200"))
    assert outputs(tmp_path / "one") == killer.expected


def children(process: subprocess.Popen[str]) -> list[int]:
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)]
    listed = subprocess.run(command, capture_output=True, text=True)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "spawn_main" in line]


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(what: object) -> None:
    while not what():  # type: ignore[operator]
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_worker_is_one_line_and_a_killed_parent_takes_its_workers_along(
    tmp_path: Path,
) -> None:
    source, out = write_rows(tmp_path / "rows.jsonl", 20_000), tmp_path / "out"
    options = ("--column", "text", "--shard-rows", "100", "--processes", "2")
    process = start("tokenize", source, out, *options)
    wait_for(lambda: [*out.glob("part-*")])
    os.kill(children(process)[0], signal.SIGKILL)
    (line,) = [x for x in finish(process, 1).splitlines() if x.startswith("glassformer: ")]
    assert "worker process has ended" in line and "resume" in line
    count = len([*out.glob("part-*")])
    process = start("tokenize", source, out, *options)
    wait_for(lambda: len([*out.glob("part-*")]) > count)
    workers = children(process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not any(map(alive, workers)))
    assert len(workers) == 2
    finish(start("tokenize", source, out, *options))
    finish(start("tokenize", source, tmp_path / "one", *options[:-2]))
    assert outputs(out) == outputs(tmp_path / "one")


def test_ctrl_c_leaves_what_is_finished(tmp_path: Path) -> None:
    source, out = write_rows(tmp_path / "rows.jsonl", 100_000), tmp_path / "out"
    options = ("--column", "text", "--shard-rows", "100")
    process = start("tokenize", source, out, *options)
    wait_for(lambda: [*out.glob("part-*")])
    os.kill(process.pid, signal.SIGINT)
    assert finish(process, 75).splitlines()[-1] == (
        f"glassformer: {out}: interrupted: run the same command to resume"
    )
    assert not [*out.glob(".part-*")] and [*out.glob("part-*")]
