"""Each hostile folder meets a process of its own: imported once, forked for every case, watched.

`python harness.py` is the server: a line of JSON in, a fork, a line of JSON out. The child says how
it ended, in how many seconds of CPU, with how much memory, and what it did that a load must not do.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# On the wall; of CPU, ten times what the slowest needs; over the start.
HANGS, MOST_SECONDS, MOST_MB = 120, 5.0, 50
WORK = 0.5  # seconds of CPU that must be seen
TEXTS = ["The cat's 12 mats.", ("a", "é ")]
FORBIDDEN = (
    "pickle", "marshal", "exec", "compile", "code.__new__", "import", "subprocess", "socket",
    "urllib", "ctypes", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.mkdir",
    "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate",
    "os.putenv", "shutil", "tempfile", "webbrowser", "sys.settrace",
)  # fmt: skip
# what saving does
MOVES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "shutil")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Verdict:
    """How a case ended: "loads", "refused", "raised" or "killed"."""

    end: str
    line: str = ""  # the error's text
    seconds: float = 0.0
    mb: float = 0.0
    noise: str = ""  # on stdout and stderr
    deeds: list[str] = field(default_factory=list)  # what a load must not do
    result: Any = None


class Harness:
    """The client: one server for a session of tests."""

    def __init__(self) -> None:
        quiet = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
        self.server = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "gate.harness"],
            cwd=Path(__file__).parent.parent, env=os.environ | quiet,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        names = json.loads(self.server.stdout.readline())
        self.whole = {name: Path(folder) for name, folder in names.items()}  # good ones, to copy

    def run(self, action: str, hangs: int = HANGS, **arguments: Any) -> Verdict:
        """It is killed after so many seconds on the wall."""
        print(json.dumps([action, hangs, arguments]), file=self.server.stdin, flush=True)
        return Verdict(**json.loads(self.server.stdout.readline()))

    def close(self) -> None:
        self.server.communicate()


class Watch:
    """The audit hook: while it watches a folder, it keeps what a load must not do."""

    def __init__(self) -> None:
        self.deeds: list[str] = []
        self.folder = ""
        self.writes = False

    @contextmanager
    def below(self, folder: str | Path, *, writes: bool = False) -> Iterator[None]:
        self.folder, self.writes = str(Path(folder).resolve()), writes
        try:
            yield
        finally:
            self.folder = ""

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        if event == "open" and not isinstance(args[0], int):
            path, flags = os.fsdecode(args[0]), args[2]
            inside = os.path.normpath(Path(path).absolute()).startswith(self.folder)
            if not inside or (flags & WRITES and not self.writes):
                self.deeds.append(f"open {path!r}")
        elif event.startswith(FORBIDDEN) and not (self.writes and event.startswith(MOVES)):
            self.deeds.append(f"{event} {args!r:.120}")


def memory() -> float:
    """The most this process has held since it was last told to forget, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def child(action: Callable[[], Any], watch: Watch, warm: Path, hangs: int, answer: int) -> None:
    """One case; the last line of its answer is the verdict. Ends the process."""
    import glassformer as gf

    gf.load(warm)  # the pages of torch's own files that any load touches
    noise = os.memfd_create("noise")
    for stream, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, noise), (2, noise)):
        os.dup2(file, stream)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest memory so far
    signal.alarm(hangs)
    before, start = memory(), time.process_time()
    result, end, line = None, "loads", ""
    try:
        result = action()
    except gf.errors.GlassformerError as error:
        end, line = "refused", str(error)
    except BaseException:
        end, line = "raised", traceback.format_exc()
    seconds, mb = time.process_time() - start, memory() - before
    sys.stdout.flush()
    said = os.pread(noise, 4000, 0).decode(errors="replace")
    verdict = Verdict(end, line, seconds, mb, said, watch.deeds[:10], result)
    os.write(answer, json.dumps(vars(verdict)).encode())
    os._exit(0)


def serve(home: Path) -> None:
    import glassformer as gf
    from gate import wholes
    from gate.actions import ACTIONS, load

    watch, whole = Watch(), wholes.write(home)
    for folder in whole.values():  # all that is imported late is imported now
        load(watch, print, str(folder), then=str(home / "again"))
    with suppress(gf.errors.GlassformerError):
        gf.load(home)
    warnings.simplefilter("error")
    sys.addaudithook(watch)
    print(json.dumps({name: str(folder) for name, folder in whole.items()}), flush=True)
    for line in sys.stdin:
        name, hangs, arguments = json.loads(line)
        receive, answer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(receive)

            def tell(what: object, pipe: int = answer) -> None:
                os.write(pipe, f"{what}\n".encode())

            def action(name: str = name, arguments: Any = arguments) -> Any:
                return ACTIONS[name](watch, tell, **arguments)

            child(action, watch, whole[wholes.BERT], hangs, answer)
        os.close(answer)
        with os.fdopen(receive) as pipe:
            told, _, found = pipe.read().rpartition("\n")
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            how = signal.Signals(-status).name if status < 0 else str(status)
            found = json.dumps({"end": "killed", "line": f"{how} {told.split()[-1:]}"})
        print(found, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        serve(Path(directory))
