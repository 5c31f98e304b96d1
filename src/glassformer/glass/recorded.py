"""Tensors by name, as a recorder kept them: what every measure of this room reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor

from glassformer.errors import ConfigError, shown


@dataclass(frozen=True, eq=False)
class RecordedTensors(Mapping[str, Tensor]):
    """The data of a `Trace`; measures, tables and figures read it, and `Trace` calls them.

    This is a class of its own so that imports point one way only:
    trace → tables, figures → lens, heads, path, alignment → stacks → recorded.
    """

    tensors: dict[str, Tensor]
    tokens: list[str]  # of the text; for a translation, of the target
    source_tokens: list[str] = field(default_factory=list)  # for a translation, of the source
    config: dict[str, Any] = field(default_factory=dict)  # the model's
    sentences: list[int] = field(default_factory=list)  # of a document: the tokens of each

    def __getitem__(self, name: str) -> Tensor:
        if not isinstance(name, str):
            raise ConfigError(
                f"trace[{shown(name)}]: tensors have names: list(trace) shows them, as "
                f"trace[{next(iter(self), '')!r}]"
            )
        try:
            return self.tensors[name]
        except KeyError:
            raise ConfigError(f"no tensor {name!r} in this trace{nearest(name, self)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor of this name, or `default`.

        Examples:
            >>> trace.get("no such name") is None
            True
        """
        return self.tensors.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {' '.join(self.tokens)!r}: {len(self)} tensors"

    def find(self, pattern: str) -> dict[str, Tensor]:
        """All tensors whose names match `pattern`: `*` stands for any part of a name.

        Examples:
            >>> len(trace.find("*.attention.weights"))
            6
        """
        return {name: t for name, t in self.tensors.items() if fnmatchcase(name, pattern)}


def nearest(name: str, names: Mapping[str, Any]) -> str:
    """The end of an error about a name that does not exist: the closest one that does."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f": did you mean {close[0]!r}?" if close else f": it has {', '.join(list(names)[:3])} …"
