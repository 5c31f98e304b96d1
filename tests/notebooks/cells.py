"""The cells of a notebook, one after the other: in this process, or in a kernel as Jupyter does."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from commands import glassformer

HOME = Path(__file__).parents[2] / "notebooks"
CHECKS = Path(__file__).parent / "checks"
SOLUTION = re.compile(r"```python\n(.*?)```", re.DOTALL)
CHECK = """
import torch
with torch.random.fork_rng():  # a check changes neither names nor random numbers
    exec(compile({!r}, "check of {}", "exec"), dict(globals()))
"""
GUARD = """
import socket, sys
assert sys.executable == {python!r}
def refuse(*_, **__): raise OSError("the course needs no network")
socket.getaddrinfo = socket.create_connection = refuse
"""


def read(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def checks_of(path: Path) -> dict[str, str]:
    """What must hold after a cell, by its id: the reader of a notebook sees no asserts."""
    text = (CHECKS / f"{path.stem}.py").read_text(encoding="utf-8")
    parts = re.split(r"^# %% (\w+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def with_checks(path: Path) -> list[str]:
    """The code of all cells, with their checks; each hidden solution below its text."""
    code, checks = [], checks_of(path)
    for cell in read(path).cells:
        code += [cell.source] if cell.cell_type == "code" else SOLUTION.findall(cell.source)
        code += [CHECK.format(checks.pop(cell.id), cell.id)] if cell.id in checks else []
    assert not checks, f"{path.name} has no cells {list(checks)}"
    return code


def with_data(home: Path) -> Path:
    """A folder to run in, with the texts of the course beside."""
    shutil.copytree(HOME / "data", home / "data")
    return home


def run_command(words: list[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
    """`python -m glassformer …` in this process: no start of torch for each."""
    assert words[:3] == [sys.executable, "-m", "glassformer"]
    with contextlib.chdir(cwd):
        said = glassformer(*words[3:])
    return subprocess.CompletedProcess(words, said.code, said, said.errors)


def run_here(cells: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick: torch is imported already. Pictures are drawn, and the last value of a cell shown."""
    import socket

    import matplotlib.pyplot as plt
    import torch

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("the course needs no network")

    def draw() -> None:
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
        plt.close("all")

    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", draw)
    monkeypatch.setattr(subprocess, "run", run_command)
    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    threads = torch.get_num_threads()
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python tells no user of them
            for number, code in enumerate(cells, 1):
                _show(_run_cell(code, f"cell {number}", names))
                draw()
    finally:
        plt.close("all")
        torch.set_num_threads(threads)


def _run_cell(code: str, name: str, names: dict[str, Any]) -> Any:
    """The value of the last line, if it has one."""
    body = ast.parse(code, name).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), names)
    return last and eval(compile(ast.Expression(last.value), name, "eval"), names)


def _show(value: Any) -> None:
    """As Jupyter would."""
    if hasattr(value, "savefig"):
        value.savefig(io.BytesIO())
    elif hasattr(value, "_repr_html_"):
        assert value._repr_html_()
    else:
        repr(value)


def run_in_jupyter(cells: list[str], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that fails raises, with its traceback. The kernel is this interpreter, offline."""
    for name in ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(home / "jupyter"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Jupyter's packages warn about each other
        import nbformat
        from nbclient import NotebookClient

        code = [GUARD.format(python=sys.executable), *cells]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in code])
        where = {"metadata": {"path": str(home)}}
        options = {"timeout": 540, "startup_timeout": 300, "resources": where}
        NotebookClient(book, kernel_name="python3", **options).execute()
