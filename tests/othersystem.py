"""A process that lives as on another system: what Windows lacks is taken away, what it refuses is
refused. `python -X warn_default_encoding othersystem.py FOLDER` trains, evaluates and serves there.
"""

from __future__ import annotations

import builtins
import errno
import os
import stat
import sys
import warnings
from pathlib import Path
from typing import Any

MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
MISSING = (
    "fork", "forkpty", "geteuid", "getuid", "getegid", "getgid", "mkfifo", "sync", "sysconf",
    "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "sched_getaffinity",
)  # fmt: skip


def hide_modules() -> None:
    """From the package: the standard library of this system needs them for itself."""
    real = builtins.__import__

    def refuse(name: str, globals: Any = None, *rest: Any, **more: Any) -> Any:
        home = (globals or {}).get("__name__", "")
        if home.partition(".")[0] == "glassformer" and name.partition(".")[0] in MODULES:
            raise ImportError(f"{home}: no module named {name!r} on this system")
        return real(name, globals, *rest, **more)

    builtins.__import__ = refuse


def hide_functions() -> None:
    for name in MISSING:
        if hasattr(os, name):
            delattr(os, name)


def refuse_files() -> None:
    """No handle of a folder, no fsync without the right to write, no change of a mapped file."""
    opened, synced = os.open, os.fsync

    def open_file(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if "dir_fd" not in more and Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *rest, **more)

    def fsync(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.write(handle, b"")  # a handle that cannot write fails here
        synced(handle)

    os.open, os.fsync = open_file, fsync
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _unless_mapped(getattr(os, name)))


def _unless_mapped(change: Any) -> Any:
    def checked(*paths: Any, **more: Any) -> Any:
        for path in paths:
            if isinstance(path, str | os.PathLike) and not more and _is_mapped(Path(path)):
                raise PermissionError(errno.EACCES, "a mapped file", str(path))
        return change(*paths, **more)

    return checked


def _is_mapped(path: Path) -> bool:
    """Is this file, or one in this folder, mapped by this process?"""
    full = str(path.absolute())
    with Path("/proc/self/maps").open(encoding="utf-8") as maps:
        names = [line.split(maxsplit=5)[5].rstrip("\n") for line in maps if line.count("/")]
    return any(name == full or name.startswith(full + os.sep) for name in names)


def live(folder: Path) -> None:
    from fastapi.testclient import TestClient
    from harness import write_recipe

    import glassformer as gf
    from commands import glassformer
    from glassformer.checkpoint import folder as folders
    from glassformer.studio.app import create_app
    from glassformer.studio.samples import ServedModel

    folders.MAPS_LOCK = True
    recipe, out = write_recipe(folder, steps=4, workers=2), folder / "run"
    glassformer("pretrain", recipe, "--out", out)
    glassformer("pretrain", recipe, "--out", out, "--train.steps", 8)  # resumed, then pruned
    glassformer("evaluate", out / "model", recipe)
    model = gf.load(out / "model")
    model.save(out / "model")  # over the files it was read from
    gf.load("gf-encoder").embed(["The cat sat on the mat."])
    here = "http://127.0.0.1:8642"
    app = create_app([ServedModel("tiny", model, run=out)], port=8642)
    client = TestClient(app, base_url=here, headers={"origin": here})
    assert client.get("/").status_code == 200
    answer = client.post("/api/runs", json={"model": "tiny", "text": "the cat sat"})
    assert answer.status_code == 200, answer.text


if __name__ == "__main__":
    import harness  # noqa: F401 - it uses what is hidden from the package

    warnings.simplefilter("default", EncodingWarning)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"glassformer\b")
    hide_modules()
    hide_functions()
    refuse_files()
    live(Path(sys.argv[1]))
    print("alive")
