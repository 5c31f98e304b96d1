"""What the pages say about the code comes from the code. mkdocs calls this for each page.

```python model/block.py MLP.forward     lines that are in that function once, or the build fails
```math                                  LaTeX, drawn by the browser itself
{{course}}                               the list of notebooks/README.md

docs/reference.py writes docs/reference/.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "glassformer"
CODE = re.compile(r"^```python (\S+\.py) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^\{\{(\w+) ?(.*?)\}\}$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The name is mkdocs'."""
    markdown = CODE.sub(lambda match: listing(*match.groups()), markdown)
    markdown = MATH.sub(lambda match: formula(match[1]), markdown)
    return MARK.sub(lambda match: MARKS[match[1]](*match[2].split()), markdown)


def listing(file: str, scope: str, code: str) -> str:
    """Lines of code with their file, scope and line number."""
    line = find(file, scope, code)
    return f'```python title="{file} · {scope}" linenums="{line}"\n{code}```'


def find(file: str, scope: str, code: str) -> int:
    """The number of the first line of `code`, which must be in that scope exactly once."""
    node = _node(file, scope)
    lines = [line.strip() for line in (SOURCE / file).read_text("utf-8").splitlines()]
    snippet = [line.strip() for line in code.strip("\n").splitlines()]
    last = (node.end_lineno or node.lineno) - len(snippet) + 1
    places = [i for i in range(node.lineno, last + 1) if lines[i - 1 :][: len(snippet)] == snippet]
    if len(places) != 1 or not any(snippet):
        raise LookupError(
            f"{file}: {scope} has these lines {len(places)} times instead of once: {code.strip()}"
        )
    return places[0]


def _node(file: str, scope: str) -> ast.FunctionDef | ast.ClassDef:
    body: list[ast.stmt] = ast.parse((SOURCE / file).read_text("utf-8")).body
    for name in scope.split("."):
        named = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        node = next((n for n in named if n.name == name), None)
        if node is None:
            raise LookupError(f"{file} has no {scope}")
        body = node.body
    return node


def formula(latex: str) -> str:
    """MathML: it needs no script and no font from the network."""
    from latex2mathml.converter import convert

    return str(convert(latex.strip(), display="block"))


def course() -> str:
    """The list of the notebooks. They are not pages of the site, so their links become names."""
    text = (ROOT / "notebooks" / "README.md").read_text("utf-8").split("\n", 1)[1].strip()
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]+\)", r"`\1`", text)


MARKS = {"course": course}
