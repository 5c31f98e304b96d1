"""Imports go down only; files and functions stay small; only cli/ prints."""

from __future__ import annotations

import ast
import graphlib
import inspect
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

import glassformer
from glassformer.checkpoint import ARCHITECTURES
from glassformer.checkpoint.tables.gguf_kinds import GGUF
from glassformer.model import attention
from glassformer.presets import PRESETS
from glassformer.text.chat import FORMATS
from glassformer.text.sentencepiece import PIECE_LAYOUTS
from sources import FILES, PACKAGE, imports, parsed, room

# Each room may import itself and the rooms on the lines below it.
HOUSE = (
    {"cli"},
    {"studio", "serve"},
    {"asgi", "interpret"},
    {"train"},
    {"recipe"},
    {"objectives"},
    {"evaluation", "bulk"},
    {"toys", "loaded", "catalog", "environment"},
    {"generate", "inference"},
    {"glass"},
    {"data"},
    {"adapters"},
    {"checkpoint", "sizes"},
    {"tasks"},
    {"text", "model"},
    {"kernels"},
    {"presets"},
    {"fields"},
    {"config"},
    {"tensor_files"},
    {
        "strictjson",
        "durable",
        "safe_files",
        "pretrained",
        "precision",
        "distributed",
        "processes",
        "progress",
    },
    {"strict"},
    {"errors", "version"},
)
HEAVY = {"torch", "transformers"}
LIGHT = {
    "cli",
    "bulk",
    "text",
    *(str(path.relative_to(PACKAGE))[:-3] for path in (PACKAGE / "data").rglob("*.py")),
    "presets",
    "config",
    "strict",
    "strictjson",
    "durable",
    "safe_files",
    "pretrained",
    "recipe",
    "objectives",
    "fields",
    "errors",
    "version",
} - {"data/batches"}  # their import must not cost torch


def level(name: str) -> int:
    return next(i for i, rooms in enumerate(HOUSE) if name in rooms)


def test_imports_go_down_only() -> None:
    for path in FILES:
        here = room(path)
        if here in ("__init__", "__main__"):
            continue
        for name in imports(parsed(path.read_text())):
            parts = name.split(".")
            if parts[0] == "glassformer" and len(parts) > 1:
                assert parts[1] == here or level(parts[1]) > level(here), f"{path} imports {name}"
            assert parts[0] != "transformers", f"{path}: transformers is for tests"


def module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_imports(sources: dict[str, str]) -> dict[str, set[str]]:
    """From each module to the modules that it imports, at its top, inside functions and for types.

    The package's own __init__ is left out: it imports a module when one of its names is used.
    """
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        if name == "glassformer":
            continue
        graph[name] = set()
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                graph[name] |= {each if each in sources else node.module for each in inner}
        graph[name] &= sources.keys() - {name, "glassformer"}
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A list of modules that import each other in a circle; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = module_imports({module(path): path.read_text() for path in FILES})
    assert not cycle(graph)


def test_a_circle_would_be_seen() -> None:
    sources = {
        "glassformer.one": "def f():\n    from glassformer.two import g",
        "glassformer.two": "import glassformer.three",
        "glassformer.three": "if TYPE_CHECKING:\n    from glassformer import one",
    }
    assert set(cycle(module_imports(sources))) == set(sources)
    sources["glassformer.three"] = "import glassformer"
    assert not cycle(module_imports(sources))


def test_a_wrong_arrow_would_be_seen() -> None:
    names = list(imports(parsed("from glassformer.cli import demo\nimport glassformer.glass")))
    assert "glassformer.cli.demo" in names and "glassformer.glass" in names
    assert level("cli") < level("model")


def test_light_rooms_do_not_import_torch_at_the_top() -> None:
    for path in FILES:
        if not {room(path), path.relative_to(PACKAGE).with_suffix("").as_posix()} & LIGHT:
            continue
        for node in parsed(path.read_text()).body:
            for name in imports(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
                assert name.split(".")[0] not in HEAVY, f"{path} imports {name} at its top"


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
        tops = {name.split(".")[0] for name in imports(parsed(path.read_text()))}
        assert tops <= allowed, f"{path.name} imports {tops - allowed}"


def test_files_and_functions_are_small() -> None:
    for path in FILES:
        text = path.read_text()
        assert text.count("\n") <= 400, f"{path.name} is too long"
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 80, f"{path.name}: {node.name}"


def test_the_book_can_be_read_in_an_evening() -> None:
    lines = sum(path.read_text().count("\n") for path in (PACKAGE / "model").glob("*.py"))
    assert lines <= 1_450


def test_an_architecture_is_a_page_of_data() -> None:
    """A table, and the data of its tests."""
    tables, parity = PACKAGE / "checkpoint" / "tables", Path(__file__).parent / "parity"
    for folder, most in ((tables, 130), (parity, 60)):
        for path in folder.glob("*.py"):
            lines = path.read_text().count("\n")
            assert lines <= most or path.name.startswith("test_"), f"{path.name} is too long"


def compared(source: str) -> set[str]:
    """The texts that a source compares anything with."""
    return {
        each.value
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        for each in ast.walk(side)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def test_no_branch_on_the_name_of_a_model() -> None:
    """What differs between models is data, in tables, layouts and presets."""
    names = {*ARCHITECTURES, *GGUF, *PIECE_LAYOUTS, *FORMATS, *PRESETS} - {"glassformer"}
    names |= {name for table in ARCHITECTURES.values() for name in table.heads}
    for path in FILES:
        assert not compared(path.read_text()) & names, path.name
    assert compared('if kind == "llama" or name in ("bert", "x"): pass') & names == {
        "llama",
        "bert",
    }


def test_nothing_can_execute_what_a_file_says() -> None:
    banned = {"pickle", "marshal", "shelve", "joblib", "torch.load", "runpy"}
    for path in FILES:
        tree = parsed(path.read_text())
        found = set(imports(tree)) & banned
        calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
        names = {f.id for f in calls if isinstance(f, ast.Name)}
        found |= names & {"eval", "exec", "compile", "__import__"}
        loads = [f for f in calls if isinstance(f, ast.Attribute) and f.attr == "load"]
        found |= {ast.unparse(f) for f in loads} & {"torch.load"}
        assert not found, f"{path.name}: {found}"


def test_only_the_command_line_prints() -> None:
    for path in FILES:
        if room(path) == "cli":
            continue
        for node in ast.walk(parsed(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", path.name


ROUTE = ["Stack.forward", "Block.forward", "Attention.forward", "attend"]


@pytest.mark.parametrize(
    "texts", [[[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5]]], ids=["even", "ragged"]
)
@pytest.mark.parametrize(
    ("family", "kind", "calls"),
    [("encoder", "masked_lm", 1), ("decoder", "causal_lm", 1), ("seq2seq", "translation", 3)],
)
def test_six_functions_from_task_to_kernel(
    family: Literal["encoder", "decoder", "seq2seq"],
    kind: Literal["masked_lm", "causal_lm", "translation"],
    calls: int,
    texts: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of our functions that a reader has to follow; ragged texts on a CPU need one more."""
    config = glassformer.ModelConfig(
        family=family, vocab_size=11, width=4, depth=1, heads=1, mlp_width=4, max_length=8
    )
    task = glassformer.build_task(config, glassformer.TaskConfig(kind=kind)).eval()
    routes: list[list[str]] = []

    def spy(*args: Any, **options: Any) -> Any:
        frame, route = inspect.currentframe(), []
        while frame := frame and frame.f_back:
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                route.append(frame.f_code.co_qualname)
        routes.append(route[::-1])
        return kernel(*args, **options)

    kernel = attention.scaled_dot_product_attention
    monkeypatch.setattr(attention, "scaled_dot_product_attention", spy)
    source = glassformer.Batch.of(texts) if family == "seq2seq" else None
    task(glassformer.Batch.of(texts, source=source))
    start = [f"{type(task).__name__}.forward", f"{type(task.backbone).__name__}.forward"]
    even = len({len(text) for text in texts}) == 1
    route = [*start, *ROUTE] if even else [*start, *ROUTE, "_text_by_text"]
    texts_done = 1 if even else len(texts)  # one call for all texts, or one for each
    assert routes == [route] * (calls * texts_done)
    assert len(route) == (6 if even else 7)


def test_reading_a_recipe_loads_no_torch() -> None:
    code = "import sys, glassformer.recipe.schema; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_class_name_is_used_once() -> None:
    names = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in parsed(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
