"""Bulk jobs: `map --processes 2`, and two Ray actors, beside two single processes; peak memory.

    python benchmarks/bulk.py            20,000 short rows, embedded by gf-encoder
    python benchmarks/bulk.py --tiny     a few rows and no Ray, to check that it runs

The two single processes share nothing: each has half of the rows. A rate is that of the rows
between the first finished shard and the last one, so starting Python and Ray does not count. The
ways take turns, with one thread a process, and the best run of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = "gf-encoder"
TEXT = "the cat sat on a mat and saw one dog run far from its home by the sea"
PEAK = """
import resource, sys
from glassformer.bulk import map_files
map_files("embed", *sys.argv[1:3], model=sys.argv[3], columns=["text"], shard_rows=int(sys.argv[4]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write_rows(path: Path, count: int) -> Path:
    draw, words = random.Random(count), TEXT.split()
    texts = (" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(count))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def start(source: Path, output: Path, rows: int, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "glassformer", "map", "embed", str(source), str(output)]
    command += ["--model", MODEL, "--column", "text", "--shard-rows", str(rows), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        [*command, "--device", "cpu"], env=environment, stdout=quiet, stderr=quiet
    )


def rate(outputs: list[Path], shard_rows: int) -> float:
    """Rows per second after the first shard."""
    times = sorted(part.stat().st_mtime for out in outputs for part in out.glob("part-*"))
    return shard_rows * (len(times) - 1) / max(times[-1] - times[0], 1e-9)


def run(
    ways: dict[str, list[tuple[Path, str]]], folder: Path, rows: int, turn: int
) -> dict[str, float]:
    rates = {}
    for name, commands in ways.items():
        outputs = [folder / f"{turn}-{name.replace(' ', '-')}-{i}" for i in range(len(commands))]
        started = [
            start(source, output, rows, *options.split())
            for (source, options), output in zip(commands, outputs, strict=True)
        ]
        for process in started:
            assert process.wait() == 0, name
        rates[name] = rate(outputs, rows)
    return rates


def peak(source: Path, output: Path, rows: int) -> float:
    command = [sys.executable, "-c", PEAK, str(source), str(output), MODEL, str(rows)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    rows, runs, shard = (80, 1, 10) if options.tiny else (options.rows, options.runs, 500)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        halves = [write_rows(folder / f"half-{i}.jsonl", rows // 2) for i in range(2)]
        whole = folder / "whole.jsonl"
        whole.write_text("".join(half.read_text() for half in halves))
        ways = {
            "two single processes": [(half, "") for half in halves],
            "--processes 2": [(whole, "--processes 2")],
        }
        if not options.tiny:
            ways["--ray --processes 2"] = [(whole, "--ray --processes 2")]
        results = [run(ways, folder, shard, turn) for turn in range(runs)]
        best = {name: max(each[name] for each in results) for name in ways}
        alone = best["two single processes"]
        for name, value in best.items():
            print(f"{name:24} {value:8,.0f} rows/s  {value / alone:7.1%}")
        tenth = write_rows(folder / "tenth.jsonl", rows // 10)
        sizes = [peak(each, folder / f"peak-{each.stem}", shard) for each in (tenth, whole)]
        small, large = (f"{size:,.0f} MB" for size in sizes)
        print(f"peak memory: {small} for {rows // 10:,} rows, {large} for {rows:,}")


if __name__ == "__main__":
    main()
