"""Writes what docs/reference/ says about the code into its pages: python docs/reference.py

A page keeps what stands outside these two lines; between them stands what NAME gives:

<!-- generated: NAME -->
<!-- end -->
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from typer.models import ArgumentInfo, OptionInfo

from glassformer.cli.main import application
from glassformer.recipe.reference import recipe_fields

PAGES = sorted((Path(__file__).parent / "reference").glob("*.md"))
PART = re.compile(r"(<!-- generated: (\w+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with its parts as the code is now."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]](part[3])}\n\n{part[4]}", page)


# --------------------------------------------------------------------------------- command line


def commands(name: str) -> str:
    """Every command: how it is called, what it does, its options."""
    return "\n\n".join(
        _command(words, function) for words, function in _commands(application(), name)
    )


def _commands(group: typer.Typer, name: str) -> Iterator[tuple[str, Callable[..., None]]]:
    for command in group.registered_commands:
        function = command.callback
        assert function is not None  # noqa: S101
        yield f"{name} {command.name or function.__name__}", function
    for inner in group.registered_groups:
        assert inner.typer_instance is not None  # noqa: S101
        yield from _commands(inner.typer_instance, f"{name} {inner.name}")


def _command(words: str, function: Callable[..., None]) -> str:
    usage, rows = words, []
    for name, parameter in inspect.signature(function).parameters.items():
        info = parameter.default
        if isinstance(info, ArgumentInfo):
            title = (info.metavar or name.upper()).strip("[]")
            needed = info.default is ...
            usage += f" {title}" if needed else f" [{title}]"
            rows.append((f"`{title}`", "", info.help))
        elif isinstance(info, OptionInfo):
            flags = info.param_decls or (f"--{name.replace('_', '-')}",)
            usage += f" {flags[0]} {name.upper()}" if info.default is ... else ""
            rows.append((f"`{' '.join(flags)}`", _default(info.default), info.help))
    text = f"## `{words}`\n\n```text\n{usage}\n```\n\n{_prose(function)}"
    table = "".join(f"| {' | '.join(_cell(str(cell)) for cell in row)} |\n" for row in rows)
    head = "\n\n| | default | |\n|---|---|---|\n" if table else ""
    return (text + head + table).rstrip()


def _default(value: Any) -> str:
    return "" if value in (None, False, ..., "", ()) else f"`{value}`"


# -------------------------------------------------------------------------------------- recipes


def fields(group: str) -> str:
    """The fields of a group of a recipe as a table."""
    rows = "| field | default | meaning |\n|---|---|---|"
    for each in recipe_fields():
        head, _, name = each.name.partition(".")
        if head == group or (not name and group == "recipe"):
            default = f"`{_cell(each.default)}`" if each.default else ""
            meaning = each.meaning[:1].upper() + each.meaning[1:].rstrip(".")
            readers = f" Only for {', '.join(each.objectives)}." if each.objectives else ""
            cells = (f"`{name or head}`", default, f"{meaning} ({each.values}).{readers}")
            rows += "\n| " + " | ".join(map(_cell, cells)) + " |"
    return rows


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


# --------------------------------------------------------------------------------------- Python


def names(module: str) -> str:
    """Every public function and class of a module, with its docstring."""
    package = importlib.import_module(module)
    things = {name: getattr(package, name) for name in package.__all__}
    parts = [_function(name, thing) for name, thing in things.items() if inspect.isfunction(thing)]
    parts += [_class(name, thing) for name, thing in things.items() if inspect.isclass(thing)]
    return "\n\n".join(parts)


def _function(name: str, function: Any, level: str = "##") -> str:
    return f"{level} `{name}`\n\n{_call(name, function)}\n\n{_prose(function)}".rstrip()


def _call(name: str, function: Any) -> str:
    """The signature, as it stands in the source."""
    signature = inspect.signature(function)
    arguments, stars = (
        [],
        {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"},
    )
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not any(a.startswith("*") for a in arguments):
            arguments.append("*")
        text = stars.get(each.kind, "") + each.name
        text += "" if each.annotation is each.empty else f": {each.annotation}"
        arguments.append(text if each.default is each.empty else f"{text} = {each.default!r}")
    call = f"{name}({', '.join(arguments)})"
    if len(call) > 80:
        call = f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + ")"
    returned = signature.return_annotation
    call += "" if returned in (inspect.Signature.empty, "None", None) else f" -> {returned}"
    return f"```python\n{call}\n```"


def _class(name: str, thing: type) -> str:
    if issubclass(thing, BaseModel | Exception):
        return f"## `{name}`\n\n{_prose(thing)}".rstrip()
    parts = [f"## `{name}`\n\n{_call(name, thing)}\n\n{_prose(thing)}".rstrip()]
    for method, value in _members(thing).items():
        value = getattr(value, "__func__", value)
        if not method.startswith("_") and value.__doc__:
            if inspect.isfunction(value):
                parts.append(_function(f"{name}.{method}", value, "###"))
            elif isinstance(value, property):
                parts.append(f"### `{name}.{method}`\n\n{_prose(value)}")
    return "\n\n".join(parts)


def _members(thing: type) -> dict[str, Any]:
    """Of the class and of our classes that it is derived from."""
    ours = [each for each in thing.__mro__ if each.__module__.startswith("glassformer")]
    return {name: value for each in reversed(ours) for name, value in vars(each).items()}


def _prose(thing: Any) -> str:
    """A docstring as Markdown; the arguments become a list, an example a listing."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r"^(Args|Raises|Returns|Example|Examples):\n((?:    .*\n?|\n)+)", _section, text,
                  flags=re.MULTILINE)  # fmt: skip
    return text.strip().replace("<", "&lt;") if "```" not in text else text.strip()


def _section(match: re.Match[str]) -> str:
    body = inspect.cleandoc("\n" + match[2])
    if match[1].startswith("Example"):
        return f"```python\n{body}\n```\n"
    items = re.sub(r"^(\w+): ", r"- `\1`: ", body, flags=re.MULTILINE)
    return re.sub(r"\n {4}(?=\S)", "\n  ", items) + "\n\n"


PARTS: dict[str, Callable[[str], str]] = {"commands": commands, "fields": fields, "names": names}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text("utf-8")), "utf-8")
