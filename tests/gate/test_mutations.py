"""Random damage, thousands of times: a folder loads, or is refused in one line. Nothing else."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gate.harness import Harness

AT_ONCE = 50  # in one process


def check(harness: Harness, home: Path, first: int, count: int = AT_ONCE) -> int:
    verdict = harness.run("mutate", home=str(home), first=first, count=count)
    assert verdict.end == "loads", f"from seed {first}: {verdict}"
    assert not verdict.result["wrong"], "\n".join(verdict.result["wrong"])
    return verdict.result["loads"]


@pytest.mark.parametrize("first", range(0, 400, 200))
def test_four_hundred(first: int, harness: Harness, tmp_path: Path) -> None:
    loads = sum(check(harness, tmp_path, seed) for seed in range(first, first + 200, AT_ONCE))
    assert 0 < loads < 100  # most damage shows; some is to what nobody reads


@pytest.mark.slow
def test_a_hundred_thousand(tmp_path: Path) -> None:
    workers = os.cpu_count() or 1

    def some(worker: int) -> None:
        harness = Harness()
        for first in range(worker * AT_ONCE, 100_000, workers * AT_ONCE):
            check(harness, tmp_path / str(worker), first)
        harness.close()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(some, range(workers)))
