"""No line of the package can run what a file says: the words for it are not in the source."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "src" / "glassformer"
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {
    "pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "runpy",
    "code", "codeop", "imp", "zipimport", "ctypes", "cffi", "jinja2", "yaml", "tarfile", "zipfile",
}  # fmt: skip
CALLS = {
    "eval", "exec", "compile", "__import__", "load_module", "exec_module", "import_module",
    "spec_from_file_location", "torch.load", "torch.hub.load", "torch.jit.load", "np.load",
    "numpy.load", "os.system", "os.popen", "os.execv", "extractall", "builtins.eval",
    "builtins.exec",
}  # fmt: skip


def found_in(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= ({str(node.module).split(".")[0]} & MODULES) | (names & CALLS)
            found |= {alias.name for alias in node.names} & CALLS
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            found |= {name} & CALLS
            found |= {last} & (CALLS - {"eval", "exec", "compile"})  # model.eval is another
    return found


# Modules of the package by their names; and archives whose members are read, each up to its size,
# and never unpacked.
ALLOWED = {
    PACKAGE / "__init__.py": {"import_module"},
    PACKAGE / "cli/main.py": {"import_module"},
    PACKAGE / "objectives/__init__.py": {"import_module"},
    PACKAGE / "checkpoint/vectors.py": {"zipfile"},
    PACKAGE / "data/readers/folders.py": {"zipfile"},
    # A chat template that the user has handed over, in a sandbox: run in a process with limits.
    PACKAGE / "text/jinja_child.py": {"jinja2"},
    PACKAGE / "asgi/memory.py": {"ctypes"},  # a call of the C library that is loaded already
    PACKAGE / "distributed/__init__.py": {"ctypes"},  # a call of the interpreter itself
}


def test_nothing_runs_what_a_file_says() -> None:
    for path in FILES:
        assert found_in(path.read_text()) == ALLOWED.get(path, set()), path


@pytest.mark.parametrize(
    "line",
    ["import pickle", "from pickle import loads", "eval(text)", "exec(text)", "torch.load(path)",
     "import importlib; importlib.import_module(name)", "from importlib import import_module",
     "np.load(path, allow_pickle=True)", "__import__(name)", "compile(text, '', 'exec')",
     "from torch import load", "os.system(text)", "file.extractall()", "import jinja2"],
)  # fmt: skip
def test_each_of_the_words_is_seen(line: str) -> None:
    if line == "from torch import load":
        assert found_in(line) == {"torch.load"}
    assert found_in(line)
