"""Random damage, thousands of times: it loads, or is refused in one line. Nothing else.

Folders, GGUF files and traces; a seed decides what is damaged, and how.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ggufs
import glassformer as gf
from folders import tiny
from gate.harness import Harness

AT_ONCE, FILES_AT_ONCE = 50, 100  # in one process


def check(harness: Harness, home: Path, first: int, base: Path | str = "") -> int:
    count = FILES_AT_ONCE if base else AT_ONCE
    verdict = harness.run("mutate", home=str(home), first=first, count=count, base=str(base))
    assert verdict.end == "loads", f"from seed {first}: {verdict}"
    assert not verdict.result["wrong"], "\n".join(verdict.result["wrong"])
    return verdict.result["loads"]


def test_a_hundred(harness: Harness, tmp_path: Path) -> None:
    loads = sum(check(harness, tmp_path, seed) for seed in range(0, 100, AT_ONCE))
    assert 0 < loads < 50  # most damage shows; some is to what nobody reads


def check_many(home: Path, count: int, base: Path | str = "") -> None:
    workers, step = os.cpu_count() or 1, FILES_AT_ONCE if base else AT_ONCE

    def some(worker: int) -> None:
        harness = Harness()
        for first in range(worker * step, count, workers * step):
            check(harness, home / str(worker), first, base)
        harness.close()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(some, range(workers)))


@pytest.mark.slow
def test_a_hundred_thousand(tmp_path: Path) -> None:
    check_many(tmp_path, 100_000)


@pytest.fixture(scope="module", params=["gguf", "trace"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good file."""
    path = tmp_path_factory.mktemp("whole") / f"good.{request.param}"
    if request.param == "trace":
        gf.record(tiny("seq2seq"), ([8, 9, 7], [3, 14, 15, 9])).save(path)
    else:
        ggufs.write(path, ggufs.reference(vocab_size=301), changes=ggufs.tokenizer())
    return path


def test_some_files(base: Path, harness: Harness, tmp_path: Path) -> None:
    assert 0 < check(harness, tmp_path, 0, base) < 0.8 * FILES_AT_ONCE


@pytest.mark.slow
def test_twenty_thousand_files(base: Path, tmp_path: Path) -> None:
    check_many(tmp_path, 20_000, base)
