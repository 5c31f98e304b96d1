"""Imports go down only; files and functions stay small; only cli/ prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer

PACKAGE = Path(glassformer.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# Each room may import itself and the rooms on the lines below it.
HOUSE = (
    {"cli"},
    {"studio"},
    {"train"},
    {"toys", "loaded"},
    {"generate", "uses"},
    {"glass"},
    {"data"},
    {"checkpoint", "sizes"},
    {"tasks"},
    {"text", "model"},
    {"kernels"},
    {"presets"},
    {"config"},
    {"strictjson", "durable", "plain", "pretrained", "precision"},
    {"errors", "version"},
)
HEAVY = {"torch", "transformers"}
LIGHT = {
    "cli",
    "text",
    *(f"data/{path.stem}" for path in (PACKAGE / "data").glob("*.py")),
    "presets",
    "config",
    "strictjson",
    "durable",
    "plain",
    "pretrained",
    "train/recipe",
    "errors",
    "version",
} - {"data/labelling", "data/objectives", "data/rows"}  # their import must not cost torch


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def level(name: str) -> int:
    return next(i for i, rooms in enumerate(HOUSE) if name in rooms)


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__"):
        return
    for name in imports(ast.parse(path.read_text())):
        parts = name.split(".")
        if parts[0] == "glassformer" and len(parts) > 1:
            assert parts[1] == here or level(parts[1]) > level(here), f"{here} imports {name}"
        assert parts[0] != "transformers", "transformers is for tests"


def test_a_wrong_arrow_would_be_seen() -> None:
    names = list(imports(ast.parse("from glassformer.cli import demo\nimport glassformer.glass")))
    assert "glassformer.cli.demo" in names and "glassformer.glass" in names
    assert level("cli") < level("model")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_light_rooms_do_not_import_torch_at_the_top(path: Path) -> None:
    if not {room(path), path.relative_to(PACKAGE).with_suffix("").as_posix()} & LIGHT:
        return
    for node in ast.parse(path.read_text()).body:
        for name in imports(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
            assert name.split(".")[0] not in HEAVY, f"{path.name} imports {name} at its top"


def test_model_imports_torch_the_standard_library_and_config_only() -> None:
    allowed = {
        "torch",
        "glassformer",
        "__future__",
        "array",
        "itertools",
        "math",
        "re",
        "inspect",
        "dataclasses",
    }
    allowed |= {"collections", "functools", "typing"}
    for path in (PACKAGE / "model").glob("*.py"):
        tops = {name.split(".")[0] for name in imports(ast.parse(path.read_text()))}
        assert tops <= allowed, f"{path.name} imports {tops - allowed}"


def test_files_and_functions_are_small() -> None:
    for path in FILES:
        text = path.read_text()
        assert text.count("\n") <= 400, f"{path.name} is too long"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 80, f"{path.name}: {node.name}"


def test_the_book_can_be_read_in_an_evening() -> None:
    lines = sum(path.read_text().count("\n") for path in (PACKAGE / "model").glob("*.py"))
    assert lines <= 1_300


def test_nothing_can_execute_what_a_file_says() -> None:
    banned = {"pickle", "marshal", "shelve", "joblib", "torch.load", "runpy"}
    for path in FILES:
        tree = ast.parse(path.read_text())
        found = set(imports(tree)) & banned
        calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        found |= calls & {"eval", "exec", "torch.load", "compile", "__import__"}
        assert not found, f"{path.name}: {found}"


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        if room(path) == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) != "print", path.name


def test_five_functions_from_task_to_attend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Task, (the thin family,) Stack, Block, Attention, attend: what a reader has to follow."""
    import sys

    from glassformer.model import attention

    config = glassformer.ModelConfig(
        family="encoder", vocab_size=11, width=4, depth=1, heads=1, mlp_width=4, max_length=8
    )
    task = glassformer.build_task(config, glassformer.TaskConfig(kind="masked_lm")).eval()
    frames: list[str] = []

    def spy(*args: object) -> object:
        frame = sys._getframe(1)
        while frame is not None:
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                frames.append(frame.f_code.co_qualname)
            frame = frame.f_back
        return attend(*args)

    attend = attention.attend
    monkeypatch.setattr(attention, "attend", spy)
    task(glassformer.Batch.of([[1, 2, 3]]))
    assert frames[::-1] == [
        "MaskedLM.forward",
        "Encoder.forward",
        "Stack.forward",
        "Block.forward",
        "Attention.forward",
    ]
