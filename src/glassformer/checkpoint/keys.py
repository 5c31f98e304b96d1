"""A foreign config.json as data: their keys and our fields, in both directions.

Keys that change the arithmetic are known, with their values; all others are kept and written back,
but never acted on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer.errors import CheckpointError, shown

Json = dict[str, Any]
REQUIRED = object()


@dataclass(frozen=True)
class Key:
    theirs: str | tuple[str, ...]  # "a.b" is b inside a; several: older spellings
    ours: str | tuple[str, ...]  # "width", or inside a group "dropout.residual"
    default: Any = REQUIRED  # transformers' default if the key is missing or null; or a function
    values: Mapping[Any, Any] = field(default_factory=dict)  # their value → ours, if they differ
    read: Callable[[Any], Any] | None = None  # their number → ours, and back
    write: Callable[[Any], Any] | None = None
    first: bool = False  # a list is allowed: its first item counts
    joined: str | None = None  # a list is allowed: its items, joined by this
    unset: Any = None  # a value that means the same as no key
    nullable: bool = False  # null is a value, not the default
    sparse: bool = False  # written only where it is not the default

    @property
    def names(self) -> tuple[str, ...]:
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours


ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


def read_keys(keys: tuple[Key, ...], foreign: Json, source: str) -> Json:
    """Their config → our fields, nested as ours are."""
    fields: Json = {}
    for key in keys:
        name, value = read_key(key, foreign, source)
        for path in key.paths:
            group, _, last = path.rpartition(".")
            home = fields.setdefault(group, {}) if group else fields
            if home.setdefault(last, value) != value:
                raise CheckpointError(
                    f"{source}: {name} = {shown(value)}, but {names(keys)[path]} = "
                    f"{shown(home[last])}: glassformer has one field for both"
                )
    return fields


def read_key(key: Key, foreign: Json, source: str) -> tuple[str, Any]:
    """The key's name in this config, and its value converted to ours."""
    spelt = ((name, look_up(foreign, name, source)) for name in key.names)
    known = ((name, value) for name, value in spelt if value is not None and value != key.unset)
    name, value = next(known, (key.names[0], None))
    if value is None:
        if key.nullable and any(name in foreign for name in key.names):
            return name, None
        if key.default is REQUIRED:
            raise CheckpointError(f"{source}: field {name!r} is missing: write a value for it")
        return name, key.default(foreign) if callable(key.default) else key.default
    if key.first and isinstance(value, list) and value:
        value = value[0]
    if key.joined is not None and isinstance(value, list):
        value = key.joined.join(map(str, value))
    if isinstance(value, dict | list):
        raise CheckpointError(f"{source}: {name} = {shown(value)}: write one value")
    if key.values:
        if not isinstance(value, str | bool) or value not in key.values:
            raise CheckpointError(
                f"{source}: {name} = {shown(value)} is not known: "
                f"write one of {', '.join(map(str, key.values))}"
            )
        return name, key.values[value]
    if key.read is not None:
        if type(value) is not int:
            raise CheckpointError(f"{source}: {name} = {shown(value)}: write a whole number")
        return name, key.read(value)
    return name, value


def write_keys(keys: tuple[Key, ...], fields: Json, foreign: Json) -> Json:
    """Our fields → their config. Keys that have the same meaning already keep their spelling."""
    written = foreign
    for key in keys:
        ours = [look_up(fields, path) for path in key.paths]
        if any(value != ours[0] for value in ours):
            raise CheckpointError(
                f"{' and '.join(key.paths)} differ: this layout has one field, "
                f"{key.names[0]}, for both"
            )
        present = [name for name in key.names if look_up(written, name) is not None]
        same = (present or key.sparse) and read_key(key, written, "config.json")[1] == ours[0]
        if same:
            continue
        spelt = [theirs for theirs, word in key.values.items() if word == ours[0]]
        if key.values and not spelt:
            raise CheckpointError(f"this layout has no value for {key.ours} = {ours[0]!r}")
        value = spelt[0] if spelt else ours[0]
        if key.write is not None and value is not None:
            value = key.write(value)
        written = put(written, (present or key.names)[0], value)
    return written


def check_fixed(fixed: Mapping[str, Any], foreign: Json, source: str) -> None:
    """Refuse other values of keys that would change the arithmetic."""
    for name, supported in fixed.items():
        value = look_up(foreign, name, source)
        if value is not None and value != supported:
            raise CheckpointError(
                f"{source}: {name} = {shown(value)} is not supported: only {supported!r} is"
            )


def names(keys: tuple[Key, ...]) -> dict[str, str]:
    """Their names of our fields, and of groups of fields that are a group there, too."""
    fields = {path: key.names[0] for key in reversed(keys) for path in key.paths}
    pairs = {path.rpartition(".")[0]: name.rpartition(".")[0] for path, name in fields.items()}
    return {**{ours: theirs for ours, theirs in pairs.items() if ours and theirs}, **fields}


def look_up(config: Json, name: str, source: str = "config.json") -> Any:
    """`config[a][b]` for "a.b"; None if it is missing."""
    value: Any = config
    steps = name.split(".")
    for i, step in enumerate(steps):
        if value is None:
            return None
        if not isinstance(value, dict):
            group = ".".join(steps[:i])
            raise CheckpointError(f"{source}: {group} = {shown(value)}: write an object, {{…}}")
        value = value.get(step)
    return value


def put(config: Json, name: str, value: Any) -> Json:
    """A copy of the config with this value in it."""
    first, _, rest = name.partition(".")
    inner = config.get(first)
    known: Json = inner if isinstance(inner, dict) else {}
    return {**config, first: put(known, rest, value) if rest else value}
