"""What the pages say about the code comes from the code. mkdocs calls this for each page.

```python model/block.py MLP.forward     lines that are in that function once, or the build fails
```math                                  LaTeX, drawn by the browser itself
{{course}}                               the list of notebooks/README.md
{{fields TrainConfig}}                   the fields of a class, with their comments
{{cli}}                                  every command, as its --help shows it

mkdocstrings adds the reference of the public Python names.
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


def fields(name: str) -> str:
    """The source of the class with this name, up to its first method."""
    (path,) = [
        path
        for path in SOURCE.rglob("*.py")
        if re.search(rf"^class {name}\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    node = _node(str(path.relative_to(SOURCE)), name)
    method = next((n for n in node.body if isinstance(n, ast.FunctionDef)), None)
    end = node.end_lineno or 0
    if method is not None:
        end = min(n.lineno for n in (method, *method.decorator_list)) - 1
    code = "\n".join(path.read_text("utf-8").splitlines()[node.lineno - 1 : end]).rstrip()
    return f"```python\n{code}\n```"


def cli() -> str:
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from glassformer.cli.main import app

    command = get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="glassformer")
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text)  # the menu has them
    return text.split("\n", 1)[1].strip()  # the page has a title of its own


MARKS = {"course": course, "fields": fields, "cli": cli}
