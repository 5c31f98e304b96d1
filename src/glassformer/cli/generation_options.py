"""Options of the generation commands. Each is declared once, as a field of `Settings`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from glassformer.generate.settings import Settings

enum: Any = StrEnum  # mypy reads only enums whose members are literals
OPTIONS = {name: field for name, field in Settings.model_fields.items() if field.description}


def with_settings(
    *names: str, defaults: dict[str, Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for each of these fields of `Settings` to a command; for all, if none is named.

    The command takes them as `**settings`, and gets those that the user has written. `defaults` are
    the command's own, for --help.
    """
    fields = {name: OPTIONS[name] for name in names or OPTIONS}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            settings = {name: _value(fields[name], options.pop(name)) for name in fields}
            written = {name: value for name, value in settings.items() if value not in (None, [])}
            command(**options, **written)

        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [_parameter(name, field, defaults or {}) for name, field in fields.items()]
        run.__signature__ = signature.replace(parameters=own + added)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(name: str, field: FieldInfo, defaults: dict[str, Any]) -> inspect.Parameter:
    """For typer: None, or an empty list, stands for an option that was not written."""
    default = defaults.get(name, field.default)
    several = get_origin(field.annotation) is tuple
    option = typer.Option(
        [] if several else None,
        help=field.description,
        show_default=False if default in (None, ()) else str(default).lower(),
        rich_help_panel="Generation settings",
    )
    annotation: Any = field.annotation
    if several:
        annotation = list[str]
    elif _is_choice(field):
        words = [str(value).lower() for value in get_args(annotation)]
        annotation = enum("Choice", {word: word for word in words}) | None
    else:
        annotation = annotation | None
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=option, annotation=annotation
    )


def _value(field: FieldInfo, value: Any) -> Any:
    if value is None or not _is_choice(field):
        return value
    return next(choice for choice in get_args(field.annotation) if str(choice).lower() == value)


def _is_choice(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal
