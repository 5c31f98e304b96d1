"""What was seen inside a model: tensors by name, with the tokens they belong to."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.errors import ConfigError, InputError, check_installed

if TYPE_CHECKING:
    from glassformer.glass.figures import Picture
    from glassformer.glass.tables import Table

T = TypeVar("T")
FORMAT = "glassformer-trace-1"


@dataclass(frozen=True, eq=False)
class Trace(Mapping[str, Tensor]):
    """A mapping from names to tensors, in the order in which the model made them.

    trace["encoder.blocks.3.attention.weights"]     (H, T, S)
    trace.find("*.attention.weights")               all layers
    """

    tensors: dict[str, Tensor]
    tokens: list[str]  # of the text; for a translation, of what is written
    source_tokens: list[str] = field(default_factory=list)  # for a translation, of what is read
    config: dict[str, Any] = field(default_factory=dict)  # the model's
    sentences: list[int] = field(default_factory=list)  # of a document: how many tokens each has

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self.tensors[name]
        except KeyError:
            raise ConfigError(f"no tensor {name!r} in this trace{nearest(name, self)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def get(self, name: str, default: Any = None) -> Any:
        return self.tensors.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        return f"Trace of {' '.join(self.tokens)!r}: {len(self)} tensors"

    def find(self, pattern: str) -> dict[str, Tensor]:
        """All tensors whose names fit: `*` is any part of a name."""
        return {name: t for name, t in self.tensors.items() if fnmatchcase(name, pattern)}

    def table(self, what: str = "weights", **options: Any) -> Table:
        """A table as the lectures print them: print it, or let a notebook show it.

        `what` is tokens, weights (of one head), heads (a measure of all), says, lens, path or
        alignment: see `glass.tables` for what each can be told.
        """
        from glassformer.glass.tables import TABLES

        return _called(what, TABLES, "table")(self, **options)

    def figure(self, kind: str = "map", **options: Any) -> Picture:
        """A picture: `.savefig("map.png")`, or let a notebook show it. Takes matplotlib.

        `kind` is map (all heads), head, lens, path or alignment: see `glass.figures`.
        """
        check_installed("a picture", "plot", "matplotlib")
        from glassformer.glass.figures import FIGURES

        return _called(kind, FIGURES, "figure")(self, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """One safetensors file."""
        about = {
            "tokens": self.tokens,
            "source_tokens": self.source_tokens,
            "config": self.config,
            "sentences": self.sentences,
            "order": list(self.tensors),
        }
        metadata = {"format": FORMAT, "trace": json.dumps(about, ensure_ascii=False)}
        # A tensor may be here under two names; in a file each has its own bytes.
        tensors = {name: t.detach().clone().contiguous() for name, t in self.tensors.items()}
        try:
            save_file(tensors, Path(path), metadata)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: the trace could not be written: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: not a trace: {error}") from None
        try:
            if metadata["format"] != FORMAT:
                raise KeyError("format")
            about = json.loads(metadata["trace"])
            ordered = {name: tensors[name] for name in about["order"]}
            return cls(
                ordered, about["tokens"], about["source_tokens"], about["config"],
                about.get("sentences", []),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{path}: not a trace: write one with trace.save(…)") from None


def _called(name: str, known: Mapping[str, T], call: str) -> T:
    if name not in known:
        raise ConfigError(f"{call} {name!r}: write {', '.join(known)}")
    return known[name]


def nearest(name: str, names: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f": did you mean {close[0]!r}?" if close else f": it has {', '.join(list(names)[:3])} …"
