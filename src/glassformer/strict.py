"""Strict pydantic models, whose mistakes are reported in one line. Nothing here imports torch."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from glassformer.errors import ConfigError, shown

TYPE = re.compile(r"(int|float|str|bool)$|constrained-|literal\[|tuple\[")  # of a union, in a path
PLAINLY = (  # what pydantic says, and what we say
    ("Input should be ", "write "),
    ("a valid integer.*", "a whole number"),
    ("a valid number.*", "a number"),
    ("a valid string", "a text"),
    ("a valid boolean.*", "true or false"),
    ("a valid tuple", "a list"),
    ("a valid dictionary.*", "a table"),
    ("greater than or equal to ", "at least "),
    ("greater than ", "more than "),
    ("less than or equal to ", "at most "),
    ("^Field required$", "it is missing"),
    (r"Tuple should have (at \w+ \d+ items?).*", r"write \1"),
    (r"String should have (at \w+ \d+ characters?)", r"write \1"),
    (
        "String should match pattern .*",
        "write at most 100 letters, digits, . _ and -, the first of them no . or -",
    ),
)


class Strict(BaseModel):
    """Frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Named(Strict):
    """A config with a constructor that reports a mistake in one line."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                line = _explain(type(self), error, {})
                raise ConfigError(f"{type(self).__name__}: {line}") from error


C = TypeVar("C", bound=Named)


def read(
    kind: type[C],
    fields: Mapping[str, Any],
    source: str = "config",
    names: Mapping[str, str] | None = None,
    hint: Callable[[str], str] | None = None,
) -> C:
    """Build a `kind` from `fields`; a ConfigError names the first mistake in one line.

    `source` is the file they come from, and `names` what it calls our fields. `hint` says what to
    write instead of an unknown field.
    """
    try:
        return kind(**fields)
    except ConfigError as error:
        raise ConfigError(
            f"{source}: {_explain(kind, error.__cause__, names or {}, hint)}"
        ) from None


def _explain(
    kind: type[BaseModel],
    errors: Any,
    names: Mapping[str, str],
    hint: Callable[[str], str] | None = None,
) -> str:
    error = min(errors.errors(), key=lambda e: e["type"] != "extra_forbidden")  # typos first
    path, value = _path(error), error.get("input")
    if error["type"] == "extra_forbidden":
        group = isinstance(value, Mapping)  # a hint is about a field
        instead = _nearest(kind, error["loc"]) if hint is None or group else hint(path)
        return f"unknown field {shown(path)} (value {shown(value)}): {instead}"
    same = [
        each for each in errors.errors() if _path(each) == path
    ]  # of a union, one for each type
    path = names.get(path, path)
    if error["type"] == "missing":
        return f"field {path!r} is missing: write a value for it"
    if path and isinstance(value, list | tuple) and error["type"] == "string_type":
        return f"{path} = {shown(value)}: write one, not a list"
    if path:
        return f"{path} = {shown(value)}: " + " or ".join(
            dict.fromkeys(plainly(each["msg"]) for each in same)
        ).replace(" or write ", " or ")
    message = plainly(error["msg"])
    return re.sub(r"\b(\w+)(?= = )", lambda match: names.get(match[0], match[0]), message)


def _path(error: Any) -> str:
    """The field's full name, without the types of a union."""
    return ".".join(str(part) for part in error["loc"] if not TYPE.match(str(part)))


def plainly(message: str) -> str:
    """pydantic's message as the other ones of this package."""
    message = message.replace("Value error, ", "")
    for theirs, ours in PLAINLY:
        message = re.sub(theirs, ours, message)
    return message


def _nearest(kind: type[BaseModel], place: tuple[Any, ...]) -> str:
    """What to write instead of an unknown field: a similar name in the same group."""
    group: Any = kind
    for step in place[:-1]:  # a number is a place in a list of groups
        group = _one(group) if isinstance(step, int) else _one(group).model_fields[step].annotation
    group = _one(group)
    near = difflib.get_close_matches(str(place[-1]), list(group.model_fields), n=1)
    return f"did you mean {near[0]!r}?" if near else "remove it"


def _one(group: Any) -> Any:
    """The group of a list of groups, or of one that may be left out: GROUP | None."""
    return next(iter(get_args(group)), group)
