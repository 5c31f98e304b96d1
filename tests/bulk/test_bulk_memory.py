"""Ten times the input takes the same memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from bulkjobs import write_rows

from glassformer.data.readers.tables import rows
from sampling import mostly_slow

PEAK = """
import resource, sys
from glassformer.bulk import map_files
task, source, output, model, rows, form = sys.argv[1:]
map_files(task, source, output, model=model, columns=["text"], shard_rows=int(rows), format=form,
          device="cpu")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
MOST = 1.05


def peak(task: str, source: Path, model: object, shard_rows: int, form: str = "jsonl") -> int:
    """The most memory that a process of its own takes for a job, in kilobytes."""
    output = source.with_suffix(f".{task}-{form}")
    words = [task, source, output, model, shard_rows, form]
    command = [sys.executable, "-c", PEAK, *map(str, words)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


@pytest.mark.parametrize("form", mostly_slow(["jsonl", "parquet"]))
def test_memory_does_not_grow_with_the_input(form: str, tmp_path: Path) -> None:
    """Beyond a shard: from three of them on, all buffers have been full."""
    small = write_rows(tmp_path / "small.jsonl", 3_000)
    large = write_rows(tmp_path / "large.jsonl", 30_000)
    before = peak("tokenize", small, "gf-encoder", 1_000, form)
    assert peak("tokenize", large, "gf-encoder", 1_000, form) < MOST * before


@pytest.mark.slow
def test_one_file_of_one_shard_is_streamed_too(tmp_path: Path) -> None:
    """A packed file cannot be cut; a Parquet file is read batch by batch."""
    sizes = []
    for count in (20_000, 200_000):
        lines = write_rows(tmp_path / f"{count}.jsonl", count)
        table = pyarrow.Table.from_pylist(list(rows(lines)))
        file = tmp_path / f"{count}.parquet"
        pyarrow.parquet.write_table(table, file, row_group_size=10_000)
        sizes.append([peak("tokenize", each, "gf-encoder", 1_000_000) for each in (lines, file)])
    assert all(after < MOST * before for before, after in zip(*sizes, strict=True)), sizes


@pytest.mark.slow
def test_vectors_take_the_same_memory(tmp_path: Path) -> None:
    small = write_rows(tmp_path / "small.jsonl", 2_000)
    large = write_rows(tmp_path / "large.jsonl", 20_000)
    for form in ("jsonl", "parquet"):
        before = peak("embed", small, "gf-encoder", 1_000, form)
        assert peak("embed", large, "gf-encoder", 1_000, form) < MOST * before
