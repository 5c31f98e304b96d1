"""What the harness's children do: load a folder, load many, or misbehave on purpose."""

import os
import pickle
import signal
import socket
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import glassformer as gf
from gate.harness import HANGS, MOST_MB, MOST_SECONDS, TEXTS, WORK, Watch
from gate.mutations import FileMutator, Mutator, change_gguf, change_trace
from glassformer.errors import GlassformerError
from glassformer.studio.trace_upload import run_from_trace, uploaded_row

Tell = Callable[[object], None]


def open_and_read(folder: str | Path, adapter: str | None = None) -> gf.Model:
    model = gf.load(folder, adapter=adapter)
    if model.tokenizer is not None:
        for found in model.tokenizer.encode_all(TEXTS):
            model.tokenizer.decode(found.ids)
    return model


def open_gguf(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a tokenizer whose name is damaged is not read
        open_and_read(path)


def open_trace(path: Path) -> None:
    """As Python does, and as the studio does with an upload."""
    try:
        gf.Trace.load(path)
    finally:
        uploaded_row(run_from_trace(gf.Trace.from_bytes(path.read_bytes()), "id"))


FILES = {"gguf": (change_gguf, open_gguf), "trace": (change_trace, open_trace)}


def load(
    watch: Watch, tell: Tell, folder: str, then: str = "", cwd: str = "/",
    adapter: str | None = None,
) -> None:  # fmt: skip
    """As a user would: load, perhaps with an adapter, read a text, and perhaps save."""
    os.chdir(cwd)
    with watch.below(folder):
        model = open_and_read(folder, adapter)
    if then:
        with watch.below(Path(then).parent, writes=True):
            model.save(then)


def mutate(
    watch: Watch, tell: Tell, home: str, first: int, count: int, base: str = ""
) -> dict[str, Any]:
    """Many folders in one process: how many load, and what went wrong, by their seeds.

    With a `base`, a good file, many files like it; the end of its name says how they are opened.
    """
    mutator: Mutator | FileMutator
    if base:
        change, opened = FILES[Path(base).suffix[1:]]
        mutator = FileMutator(Path(home), Path(base), change)
        opened(Path(base))  # what is imported late is imported now
    else:
        mutator, opened = Mutator(Path(home)), open_and_read
    loads, wrong = 0, []
    for seed in range(first, first + count):
        tell(seed)  # for the one who finds us dead
        signal.alarm(HANGS)
        folder, line = mutator.write(seed), ""
        said, start = os.fstat(2).st_size, time.process_time()
        try:
            with watch.below(folder):
                opened(folder)
            loads += 1
        except GlassformerError as error:
            line = str(error)
        except BaseException:
            wrong.append(f"seed {seed}: {traceback.format_exc()}")
        seconds = time.process_time() - start
        if watch.deeds or os.fstat(2).st_size > said or seconds > MOST_SECONDS:
            wrong.append(
                f"seed {seed}: {seconds:.1f} s, {watch.deeds}, {os.pread(2, 999, said)!r}, {line}"
            )
            watch.deeds.clear()
        if not line.isprintable() or len(line) > 1_000:
            wrong.append(f"seed {seed}: {line!r}")
    return {"loads": loads, "wrong": wrong}


def misbehave(watch: Watch, tell: Tell, folder: str, how: str) -> None:
    """What must not happen: does the watcher see it?"""
    canary = Path(folder) / "canary"
    with watch.below(folder):
        match how:
            case "unpickle":
                pickle.loads((canary.parent / "pytorch_model.bin").read_bytes())
            case "exec":
                exec("1 + 1")
            case "import":
                import this  # noqa: F401
            case "process":
                subprocess.run(["true"], check=True)
            case "socket":
                socket.socket().close()
            case "read":
                Path("/etc/hostname").read_bytes()
            case "write":
                canary.write_text("here")
            case "remove":
                canary.unlink()
            case "print":
                print("hello")
            case "raise":
                raise KeyError(how)
            case "abort":
                os.abort()
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(3 * HANGS)
            case "work":
                start = time.process_time()
                while time.process_time() < start + 1.1 * WORK:
                    pass
            case "take memory":
                assert len(bytearray(2 * MOST_MB << 20)) > 0


ACTIONS: dict[str, Callable[..., Any]] = {"load": load, "mutate": mutate, "misbehave": misbehave}
