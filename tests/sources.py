"""The package's own source files."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import glassformer

PACKAGE = Path(glassformer.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a source; several tests read each file."""
    return ast.parse(source)


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
