"""What the pages of this folder say of the code comes from the code. mkdocs calls it for each page.

```python model/block.py MLP.forward     these lines stand there, once: else nothing is built
```math                                  LaTeX, drawn by the browser itself
{{readme Figures}}                       a part of the README
{{course}}                               what notebooks/README.md says
{{fields train/recipe.py Train}}         the fields of a class, with their comments
{{python}}  {{glass}}  {{cli}}           every public name, every verb
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "glassformer"
CODE = re.compile(r"^```python (\S+\.py) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^\{\{(\w+) ?(.*?)\}\}$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs' name for it."""
    markdown = CODE.sub(lambda found: beside(*found.groups()), markdown)
    markdown = MATH.sub(lambda found: drawn(found[1]), markdown)
    return MARK.sub(lambda found: MARKS[found[1]](*found[2].split()), markdown)


def beside(file: str, scope: str, code: str) -> str:
    """A listing with its place, of lines that stand exactly once in that function or class."""
    line = find(file, scope, code)
    return f'```python title="{file} · {scope}" linenums="{line}"\n{code}```'


def find(file: str, scope: str, code: str) -> int:
    """The number of the first line."""
    node = _node(file, scope)
    lines = [each.strip() for each in (SOURCE / file).read_text().splitlines()]
    wanted = [each.strip() for each in code.strip("\n").splitlines()]
    last = (node.end_lineno or node.lineno) - len(wanted) + 1
    places = [i for i in range(node.lineno, last + 1) if lines[i - 1 :][: len(wanted)] == wanted]
    if len(places) != 1 or not any(wanted):
        raise LookupError(f"{file}: {scope} has {len(places)} times, and not once: {code.strip()}")
    return places[0]


def _node(file: str, scope: str) -> ast.FunctionDef | ast.ClassDef:
    body: list[ast.stmt] = ast.parse((SOURCE / file).read_text()).body
    for name in scope.split("."):
        named = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        found = next((n for n in named if n.name == name), None)
        if found is None:
            raise LookupError(f"{file} has no {scope}")
        body = found.body
    return found


def drawn(latex: str) -> str:
    """MathML: no script and no font has to be fetched for it."""
    from latex2mathml.converter import convert

    return str(convert(latex.strip(), display="block"))


def readme(heading: str) -> str:
    """The part under a heading."""
    parts = (ROOT / "README.md").read_text().split("\n## ")
    (part,) = [each for each in parts if each.startswith(heading + "\n")]
    return _named(part.removeprefix(heading).strip())


def course() -> str:
    """The list of the notebooks, without its title; they are not among the pages."""
    return _named((ROOT / "notebooks" / "README.md").read_text().split("\n", 1)[1].strip())


def _named(text: str) -> str:
    """Links to files that are not among the pages become names."""
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]+\)", r"`\1`", text)


def fields(file: str, name: str) -> str:
    """A class as it is written, up to its first method."""
    node = _node(file, name)
    method = next((n for n in node.body if isinstance(n, ast.FunctionDef)), None)
    end = node.end_lineno or 0
    if method is not None:
        end = min(n.lineno for n in (method, *method.decorator_list)) - 1
    lines = (SOURCE / file).read_text().splitlines()[node.lineno - 1 : end]
    return _fence("\n".join(lines).rstrip(), "python")


def cli() -> str:
    """Every verb, as its --help tells."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from glassformer.cli.main import app

    command = get_command(app)
    told = get_docs_for_click(obj=command, ctx=typer.Context(command), name="glassformer")
    told = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", told)  # cut short; the menu has them
    return told.split("\n", 1)[1].strip()  # the page has a title


def python() -> str:
    import glassformer

    return listing(glassformer)


def glass() -> str:
    from glassformer import glass

    return listing(glass)


def listing(module: Any) -> str:
    """All that is public, functions first."""
    named = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
    kinds = (inspect.isfunction, inspect.isclass)
    rank = {name: [*(kind(x) for kind in kinds), True].index(True) for name, x in named.items()}
    order = sorted(named, key=lambda name: (rank[name], name))
    return "\n\n".join(_entry(name, named[name]) for name in order)


def _entry(name: str, what: Any) -> str:
    parts = [f"## `{name}`"]
    if inspect.isfunction(what):
        parts += [_fence(_signature(name, what), "python"), _prose(what)]
    elif inspect.isclass(what):
        parts += _class(name, what)
    else:
        shown = ", ".join(f"`{each}`" for each in what) if isinstance(what, dict) else f"`{what}`"
        parts.append(shown)
    return "\n\n".join(part for part in parts if part)


def _class(name: str, what: type) -> Iterable[str]:
    if "model_fields" not in dir(what) and not issubclass(what, Exception):
        yield _fence(_signature(name, what), "python")
    yield _prose(what)
    if "model_fields" in dir(what):  # its fields say more than one long line of arguments
        yield fields(str(Path(inspect.getfile(what)).relative_to(SOURCE)), what.__name__)
    for part, raw in vars(what).items():
        method = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        if part.startswith("_") or not getattr(method, "__doc__", None):
            continue
        if inspect.isfunction(method):
            signature = _signature(f"{name}.{part}", method)
            yield f"### `{name}.{part}`\n\n{_fence(signature, 'python')}\n\n{_prose(method)}"
        elif isinstance(method, property):
            yield f"### `{name}.{part}`\n\n{_prose(method)}"


class _Bare(str):
    """An annotation as it is written, without quotes."""

    __repr__ = str.__str__


def _signature(name: str, what: Any) -> str:
    signature = inspect.signature(what)
    parameters = [
        each.replace(annotation=_Bare(each.annotation))
        if isinstance(each.annotation, str)
        else each
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    answer = signature.return_annotation
    answer = _Bare(answer) if isinstance(answer, str) and answer != "None" else inspect._empty
    if inspect.isclass(what):
        answer = inspect._empty
    whole = f"{name}{signature.replace(parameters=parameters, return_annotation=answer)}"
    if len(whole) <= 80:
        return whole
    told = f"{name}{signature.replace(parameters=[], return_annotation=answer)}".split("()")[1]
    bare = str(signature.replace(parameters=parameters, return_annotation=inspect._empty))
    pieces = re.split(r", (?=\*|\w+(?::|,|=|\)$|$))", bare[1:-1])
    return f"{name}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){told}"


def _prose(what: Any) -> str:
    """Its docstring; a drawing in it stays a drawing."""
    first, _, rest = (inspect.getdoc(what) or "").partition("\n\n")
    if re.search(r"^ {2,}|   ", rest, re.MULTILINE):
        rest = _fence(textwrap.dedent(rest).strip("\n"), "text")
    return f"{first}\n\n{rest}".strip()


def _fence(code: str, language: str) -> str:
    return f"```{language}\n{code}\n```"


MARKS = {
    "readme": readme, "course": course, "fields": fields, "cli": cli, "python": python,
    "glass": glass,
}  # fmt: skip
