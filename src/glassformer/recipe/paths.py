"""The paths of a recipe: which fields hold one, and where a relative one starts.

A path inside a recipe is relative to the recipe (or to the root of its data). A path that a caller
gives, on the command line or from Python, is relative to the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from glassformer.data.remote import is_address
from glassformer.fields import PathField
from glassformer.pretrained import loadable, named

Change = Callable[[str, PathField], str]


def map_paths(schema: Any, value: Any, change: Change) -> Any:
    """The value with `change` applied to each path that the schema declares in it."""
    if get_origin(schema) is Annotated:
        marks = [mark for mark in schema.__metadata__ if isinstance(mark, PathField)]
        if marks and isinstance(value, str):
            return change(value, marks[0])
        return map_paths(schema.__origin__, value, change)
    if isinstance(value, BaseModel):
        items = type(value).model_fields.items()
        update = {n: map_paths(_annotation(f), getattr(value, n), change) for n, f in items}
        return value.model_copy(update=update)
    if isinstance(value, Mapping) and isinstance(schema, type) and issubclass(schema, BaseModel):
        known = {n: _annotation(f) for n, f in schema.model_fields.items()}
        return {n: map_paths(known.get(n), each, change) for n, each in value.items()}
    choices = [each for each in get_args(schema) if each not in (NoneType, ...)]
    if isinstance(value, list | tuple):
        kind = choices[0] if choices else None
        return type(value)(map_paths(kind, each, change) for each in value)
    for choice in choices:
        value = map_paths(choice, value, change)
    return value


def without_folders(text: str, field: PathField) -> str:
    """For readers of another machine: a full path says nothing there but its last name."""
    return Path(text).name if Path(text).is_absolute() else text


def _annotation(field: Any) -> Any:
    """pydantic keeps the marks of a field apart from its type."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def full_path(text: str | os.PathLike[str], folder: Path | None = None) -> Path:
    """Where a path leads that is relative to a folder, or to the working directory.

    The last name is kept, even that of a link: its ending says how a file is read.
    """
    path = (folder or Path()).absolute() / expanded(text)
    if ".." in path.parts:
        path = path.resolve() if path.name == ".." else path.parent.resolve() / path.name
    return path


def expanded(text: str | os.PathLike[str]) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111 - unlike Path's, it never raises


def data_path(text: str | os.PathLike[str]) -> Path | str:
    """The full path of data that a caller names; an address stays."""
    if is_address(text):
        return os.fspath(text)
    path = Path(text)
    return full_path(path if path.name.strip(".") else path.resolve())  # . is no name


def model_path(text: str, folder: Path | None = None) -> str:
    """The same of a model; the name of one that comes with the package stays."""
    return text if named(text) == loadable().get(text) else str(full_path(text, folder))


def from_caller(text: str, field: PathField) -> str:
    if field.of_model:
        return model_path(text)
    return text if is_address(text) else str(full_path(text))


def from_recipe(folder: Path) -> Change:
    """Data lies below a root that may move: its paths stay relative."""

    def change(text: str, field: PathField) -> str:
        if field.of_model:
            return model_path(text, folder)
        return str(expanded(text)) if text.startswith("~") else text

    return change
