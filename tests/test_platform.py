"""What other systems lack or refuse, taken away from this one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import pytest
import torch

from glassformer import durable, safe_files
from glassformer.checkpoint import folder as folders
from glassformer.checkpoint.folder import open_folder, write_folder
from glassformer.durable import remove, sync, write_whole
from glassformer.errors import CheckpointError, ConfigError, GlassformerError, InputError
from glassformer.pretrained import named
from glassformer.train.compare_plan import plan
from glassformer.train.run_dir import locked
from sources import FILES, PACKAGE, imports, parsed

TESTS = Path(__file__).parent
BOUND = {
    "fcntl", "grp", "msvcrt", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty",
    "winreg",
}  # fmt: skip
# Limits for a child process; on Windows, which has none, it runs without them.
ALLOWED = {"text/jinja_child.py": {"resource"}}
CALLS = {
    "os.fork", "os.geteuid", "os.getuid", "os.kill", "os.killpg", "os.mkfifo", "os.sync",
    "os.sched_getaffinity", "signal.SIGKILL", "signal.SIGUSR1", "signal.SIGHUP", "select.poll",
    "multiprocessing.get_context",
}  # fmt: skip
IMPORTS = """
import pkgutil, sys
import glassformer
from othersystem import hide_functions, hide_modules

def all_modules():
    for each in pkgutil.walk_packages(glassformer.__path__, "glassformer."):
        if each.name.endswith(".__main__"):
            continue
        try:
            __import__(each.name)
        except ModuleNotFoundError as error:
            if error.name != "triton":  # kernels for a GPU, imported only where there is one
                raise

all_modules()  # what other packages need is imported, and stays
for name in [name for name in sys.modules if name.partition(".")[0] == "glassformer"]:
    if name != "glassformer":
        del sys.modules[name]
hide_modules()
hide_functions()
exec(compile(
    "try:\\n    import fcntl\\nexcept ImportError:\\n    print('hidden')", "x", "exec"
), {"__name__": "glassformer.x"})
all_modules()
print(sum(name.startswith("glassformer.") for name in sys.modules) > 150)
"""


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join([str(TESTS), str(TESTS / "train"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, env=env)


def test_nothing_of_one_system_only() -> None:
    ends = {each.rpartition(".")[2] for each in CALLS}
    for path in FILES:
        tree = parsed(path.read_text("utf-8"))
        bound = BOUND - ALLOWED.get(path.relative_to(PACKAGE).as_posix(), set())
        assert not {name.partition(".")[0] for name in imports(tree)} & bound, path
        attributes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in ends)
        assert not {ast.unparse(each) for each in attributes} & CALLS, path


@pytest.mark.slow
def test_all_modules_can_be_imported_without_them() -> None:
    done = run("-c", IMPORTS)
    assert done.stdout.split() == [b"hidden", b"True"], done.stderr.decode()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="it asks Linux what is mapped")
def test_a_run_on_another_system(tmp_path: Path) -> None:
    """Training in threads, going on, evaluating, saving over what is mapped, and the studio."""
    done = run("-X", "warn_default_encoding", TESTS / "othersystem.py", tmp_path)
    assert done.stdout.split()[-1:] == [b"alive"], done.stderr.decode()


CONSOLE = """
import sys
from glassformer.cli.main import main
for words in {commands!r}:
    sys.argv = ["glassformer", *words]
    try:
        main()
    except SystemExit as end:
        print("ended", end.code or 0)
"""


def on_a_small_console(*commands: list[str]) -> tuple[list[str], str, str]:
    """How each command ends, and what they say."""
    script = CONSOLE.format(commands=commands)
    done = run("-c", script, PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    said, errors = (text.decode("cp1252") for text in (done.stdout, done.stderr))
    return [line for line in said.splitlines() if line.startswith("ended")], said, errors


def test_a_console_that_knows_few_letters() -> None:
    ended, said, errors = on_a_small_console(
        ["translate", "gf-en-ru", "The cat sat on the mat."],
        ["fill", "gf-encoder", "The cat → sat on the [MASK]."],
        ["fill", "нет", "[MASK]"],
    )
    assert ended == ["ended 0", "ended 0", "ended 1"], errors
    assert "\\u043a" in said  # a к can still be read
    assert "\\u043d\\u0435\\u0442: no such folder" in errors


@pytest.mark.slow
def test_the_demo_on_a_console_that_knows_few_letters() -> None:
    ended, _, errors = on_a_small_console(["demo"])
    assert ended == ["ended 0"], errors


# the lock


def test_a_lock_is_not_opened_through_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("keep this")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.lock").symlink_to(mine)
    with pytest.raises(InputError, match=r"\.lock: this is a link: move it away"), \
            locked(tmp_path / "run"):  # fmt: skip
        pass
    assert mine.read_text() == "keep this"


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from glassformer.train.run_dir import locked
with locked(Path({str(tmp_path)!r})):
    print("locked", flush=True)
    input()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None and other.stdout.readline().strip() == b"locked"
        with pytest.raises(InputError, match="another process trains here"), locked(tmp_path):
            pass
        other.kill()
    with locked(tmp_path):
        pass


# files


def test_a_folder_that_cannot_be_opened_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").touch()
    opened = os.open

    def refuse(path: Path, *rest: int) -> int:
        if Path(path) in (tmp_path, tmp_path / "closed"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    write_whole(tmp_path / "a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
    with pytest.raises(PermissionError):  # a file must be
        sync(tmp_path / "closed")


def test_a_file_that_is_busy_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, refusals = Path.replace, [2]

    def busy(path: Path, to: Path) -> Path:
        if refusals[0]:
            refusals[0] -= 1
            raise PermissionError(13, "it is being used by another process")
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", busy)
    monkeypatch.setattr(durable, "WAITS", (0.0, 0.0))
    write_whole(tmp_path / "a", b"1")
    (tmp_path / "old").mkdir()
    refusals[0] = 2
    remove(tmp_path / "old")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    refusals[0] = 3
    with pytest.raises(GlassformerError, match="could not be written: it is being used"):
        write_whole(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_names_that_lead_out_of_a_folder_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_files, "PurePath", PureWindowsPath)
    for name in ("C:x", "C:\\x", "\\x", "\\\\server\\share\\x", "a\\..\\..\\x", "/x", ".."):
        with pytest.raises(CheckpointError, match="is not the name of a file in this folder"):
            safe_files.locate(tmp_path, name)
    assert safe_files.locate(tmp_path, "model.safetensors") is None


def test_a_junction_of_windows_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(st_mode=tmp_path.lstat().st_mode, st_reparse_tag=0xA0000003)
    assert safe_files.kind_of(tmp_path) == "a folder"
    monkeypatch.setattr(Path, "lstat", lambda path: found)
    assert safe_files.kind_of(tmp_path) == "a link"


def test_where_mapped_files_are_locked_weights_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, weights = {"config.json": b"{}"}, {"a": torch.ones(7)}
    write_folder(tmp_path, texts=texts, shards={"model.safetensors": (weights, {})})
    with (tmp_path / "model.safetensors").open("r+b") as file:
        for copies, first in ((False, 3.0), (True, 1.0)):
            monkeypatch.setattr(folders, "MAPS_LOCK", copies)
            seen = open_folder(tmp_path, {}, "{}").tensors()["a"]
            file.seek(-28, os.SEEK_END)
            file.write(torch.tensor(3.0).numpy().tobytes())
            file.flush()
            assert seen[0] == first
            file.seek(-28, os.SEEK_END)
            file.write(torch.tensor(1.0).numpy().tobytes())
            file.flush()


# names


def test_names_that_differ_by_case_only(tmp_path: Path) -> None:
    shards = {name: ({"a": torch.zeros(1)}, {}) for name in ("A.safetensors", "a.safetensors")}
    with pytest.raises(CheckpointError, match="differ by case only"):
        write_folder(tmp_path / "m", texts={"config.json": b"{}"}, shards=shards)
    fields = {"name": "t"}
    with pytest.raises(ConfigError, match="Bert and bert would share a folder"):
        plan({"Bert": "Bert", "bert": "bert"}, fields, {}, "t.toml", tmp_path, 1, None, None)


def test_what_was_written_is_not_stale_by_another_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system where Model.safetensors is model.safetensors."""
    unlinked: list[str] = []
    monkeypatch.setattr(Path, "unlink", lambda path, **_: unlinked.append(path.name))
    folders._remove_stale(tmp_path, {"Model.safetensors", "config.json"}, ("README.md",))
    assert sorted(unlinked) == ["README.md", "model.safetensors.index.json"]


def test_a_shipped_model_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named("gf-encoder").is_dir()
    assert named("GF-Encoder") == Path("GF-Encoder")
