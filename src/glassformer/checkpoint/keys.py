"""A foreign config.json as data: which key is which field of ours, in both directions.

Keys that change the arithmetic are known here, by value; all others are kept as they are and
written back, never acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.errors import CheckpointError

Json = dict[str, Any]
REQUIRED = object()


@dataclass(frozen=True)
class Key:
    theirs: str
    ours: str | tuple[str, ...]  # "width", or inside a group "dropout.residual"
    default: Any = REQUIRED  # what the reference takes if the key is missing or null; or a function
    values: Mapping[Any, Any] = field(default_factory=dict)  # their word → ours, if they differ


ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


def read_keys(keys: tuple[Key, ...], foreign: Json, source: str) -> Json:
    """Their config → our fields, nested as ours are."""
    fields: Json = {}
    for key in keys:
        value = read_key(key, foreign, source)
        for path in _paths(key):
            group, _, name = path.rpartition(".")
            home = fields.setdefault(group, {}) if group else fields
            if home.setdefault(name, value) != value:
                raise CheckpointError(
                    f"{source}: {key.theirs} = {value!r}, but {path} = {home[name]!r} elsewhere in "
                    "it: glassformer has one number for both"
                )
    return fields


def read_key(key: Key, foreign: Json, source: str) -> Any:
    value = foreign.get(key.theirs)
    if value is None:
        if key.default is REQUIRED:
            raise CheckpointError(
                f"{source}: field {key.theirs!r} is missing: write a value for it"
            )
        return _default(key, foreign)
    if isinstance(value, dict | list):
        raise CheckpointError(f"{source}: {key.theirs} = {value!r:.60}: write one value")
    if key.values:
        if not isinstance(value, str) or value not in key.values:
            raise CheckpointError(
                f"{source}: {key.theirs} = {value!r} is not known: "
                f"write one of {', '.join(map(str, key.values))}"
            )
        return key.values[value]
    return value


def write_keys(keys: tuple[Key, ...], fields: Json, foreign: Json) -> Json:
    """Our fields → their config. Keys that say the same already keep their spelling."""
    written = dict(foreign)
    for key in keys:
        values = [_get(fields, path) for path in _paths(key)]
        if any(value != values[0] for value in values):
            raise CheckpointError(
                f"{' and '.join(_paths(key))} differ: this layout has one number, "
                f"{key.theirs}, for both"
            )
        if key.theirs in foreign and read_key(key, foreign, "config.json") == values[0]:
            continue
        spelt = [theirs for theirs, ours in key.values.items() if ours == values[0]]
        if key.values and not spelt:
            raise CheckpointError(f"this layout has no word for {key.ours} = {values[0]!r}")
        written[key.theirs] = spelt[0] if spelt else values[0]
    return written


def check_fixed(fixed: Mapping[str, Any], foreign: Json, source: str) -> None:
    """Keys whose other values mean arithmetic that is not here."""
    for name, wanted in fixed.items():
        found = foreign.get(name, wanted)
        if found != wanted:
            raise CheckpointError(
                f"{source}: {name} = {found!r} is not supported: only {wanted!r} is"
            )


def names(keys: tuple[Key, ...]) -> dict[str, str]:
    """What our fields are called in their config."""
    return {path: key.theirs for key in reversed(keys) for path in _paths(key)}


def _default(key: Key, foreign: Json) -> Any:
    default: Any | Callable[[Json], Any] = key.default
    return default(foreign) if callable(default) else default


def _paths(key: Key) -> tuple[str, ...]:
    return (key.ours,) if isinstance(key.ours, str) else key.ours


def _get(fields: Json, path: str) -> Any:
    group, _, name = path.rpartition(".")
    return (fields[group] if group else fields)[name]
