"""A disk that is full or broken costs one line; the checkpoint before it stands."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import shutil
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import pytest
from harness import End, Points, damaged, fail_at, live, result, steps, write_recipe

from sampling import mostly_slow

NEEDED = re.compile(r"could not be written: (.+: )?[\d,]+ bytes are needed, [\d,]+ are free$")


def check_one_line(end: End) -> None:
    """Perhaps told what it was doing before; then one line, and no traceback."""
    assert end.status == 1, end.said
    assert NEEDED.search(end.said.splitlines()[-1]), end.said
    assert end.said.count("glassformer:") == 1 and "Traceback" not in end.said


def count_points(path: Path) -> None:
    def at(number: int, name: str) -> None:
        os.write(handle, f"{name}\n".encode())

    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    Points(at).watch()


def points(recipe: Path) -> list[str]:
    """The names of all writes of a whole run, in order."""
    told = recipe.parent / "points"
    end = live("pretrain", recipe, "--out", recipe.parent / "whole",
               mischief=partial(count_points, told))  # fmt: skip
    assert end.status == 0, end.said
    return told.read_text().split("\n")[:-1]


def check_failing(recipe: Path, number: int, error: int, expected: dict[str, Any]) -> None:
    out = recipe.parent / f"fails-{number}"
    end = live("pretrain", recipe, "--out", out, mischief=partial(fail_at, number, error))
    if end.status == 0:  # where old checkpoints are removed it may fail; they only take room
        assert result(out) == expected
        return
    check_one_line(end)
    assert damaged(out) == []
    logged, saved = steps(out)
    assert logged - saved <= 1, "a checkpoint that had been written is gone"
    assert not [*out.rglob(".*.tmp-*")], "half a file is left"
    if number % 2 == 0:
        assert live("pretrain", recipe, "--out", out).status == 0
        assert result(out) == expected
    shutil.rmtree(out)


ERRORS = [errno.ENOSPC, errno.EIO, errno.EROFS]
IDS = ["full", "broken", "read-only"]


def fails(tmp_path: Path, first: int, every: int, error: int) -> int:
    """The writes of a run, or some of them, fail once. How many there are."""
    recipe = write_recipe(tmp_path, steps=2, save_every=1, evaluate_every=2, keep_checkpoints=1)
    names = points(recipe)
    expected = result(tmp_path / "whole")
    assert {"save_file", "fsync", "replace", "open", "write_bytes"} <= {*names}
    for number in range(first, len(names), every):
        check_failing(recipe, number, error, expected)
    return len(names)


@pytest.mark.parametrize("error", mostly_slow(ERRORS), ids=IDS)
def test_a_write_that_fails(error: int, tmp_path: Path) -> None:
    assert fails(tmp_path, error % 37, 70, error) > 60


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=IDS)
def test_every_write_that_fails(error: int, tmp_path: Path) -> None:
    fails(tmp_path, 0, 1, error)


def limit_files(size: int) -> None:
    """No file may grow beyond this; what is written beyond it fails, in the middle of the file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", mostly_slow([12_000, 2_000]))
def test_files_that_cannot_grow(size: int, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4, save_every=2)
    assert live("pretrain", recipe, "--out", tmp_path / "whole").status == 0
    expected = result(tmp_path / "whole")
    out = tmp_path / "limited"
    end = live("pretrain", recipe, "--out", out, mischief=partial(limit_files, size))
    check_one_line(end)
    assert "File too large" in end.said and damaged(out) == []
    assert live("pretrain", recipe, "--out", out).status == 0
    assert result(out) == expected


CLONE_NEWNS, CLONE_NEWUSER, MS_REC_PRIVATE = 0x20000, 0x10000000, 0x44000


def small_disk(folder: Path, size: int, keep: Path) -> None:
    """A real disk of `size` bytes is mounted here, for this process only. What is on it in the
    end is copied to `keep`, since the disk goes with the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)):
        os._exit(77)
    if user:  # without a name in the new space nobody may write a file there
        names = {
            "setgroups": "deny",
            "uid_map": f"{user} {user} 1",
            "gid_map": f"{group} {group} 1",
        }
        for name, text in names.items():
            Path("/proc/self", name).write_text(text)
    for done in (
        libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None),
        libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={size}".encode()),
    ):
        if done:
            os._exit(77)
    Finalize(None, shutil.copytree, args=(folder, keep), exitpriority=0)


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """See QUARANTINES.md: without leave to mount a disk this cannot be tried."""
    recipe = write_recipe(tmp_path, steps=6, save_every=2)
    assert live("pretrain", recipe, "--out", tmp_path / "whole").status == 0
    expected = result(tmp_path / "whole")
    saved = []
    for pages in range(10, 80, 7):
        out, keep = tmp_path / f"disk-{pages}", tmp_path / f"kept-{pages}"
        out.mkdir()
        end = live(
            "pretrain", recipe, "--out", out,
            mischief=partial(small_disk, out, pages * 4096, keep),
        )  # fmt: skip
        if end.status == 77:
            pytest.skip("no disk may be mounted here")
        if end.status == 0:
            break
        check_one_line(end)
        assert damaged(keep) == [] and not [*keep.rglob(".*.tmp-*")]
        saved.append(steps(keep)[1])
        assert live("pretrain", recipe, "--out", keep).status == 0
        assert result(keep) == expected
    assert saved[0] == 0 and saved[-1] > 0, "all of them failed at the same place"


def test_the_order_of_a_save(tmp_path: Path) -> None:
    """Every file is made durable, then renamed, then the folder's name is: so that not even a
    power cut can leave a name without what it stands for."""
    recipe = write_recipe(tmp_path, steps=1, save_every=1)
    names = points(recipe)
    files = len(list((tmp_path / "whole" / "checkpoints" / "step-00000001").iterdir()))
    renames = [i for i, name in enumerate(names) if name == "replace"]
    assert renames
    for place in renames:
        before = names[max(0, place - files - 1) : place]
        if before != ["fsync"] * (files + 1):  # the removal of an old one, or the model
            continue
        assert names[place + 1 : place + 3] == ["fsync", "fsync"]
        return
    raise AssertionError("no save was made durable before it was renamed")


def vanish() -> None:
    """The run's folder is deleted by somebody else after the second step."""
    from glassformer.train.run_dir import RunDir

    log = RunDir.log

    def once(run: RunDir, event: dict[str, Any]) -> None:
        log(run, event)
        if event.get("step") == 2:
            shutil.rmtree(run.folder)

    RunDir.log = once  # type: ignore[method-assign]


def test_a_folder_that_is_deleted_during_the_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=6, save_every=3)
    end = live("pretrain", recipe, "--out", tmp_path / "run", mischief=vanish)
    assert end.status == 1 and "Traceback" not in end.said, end.said
    assert str(tmp_path / "run") in end.said.splitlines()[-1]
