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

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.errors import CheckpointError, ConfigError, InputError, check_installed
from glassformer.strictjson import parse

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

    def view(self, page: str = "map", **options: Any) -> Any:
        """A page of the studio in a notebook, with this trace in it; no server, no network.

        `page` is map (all heads) or head: see `studio.notebook` for what each can be told.
        """
        # The studio stands on this room, which must not import it: only the front door knows both.
        import glassformer

        return glassformer.view(self, page, **options)

    def to_bytes(self) -> bytes:
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
        return safetensors.torch.save(tensors, metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        try:
            Path(path).write_bytes(self.to_bytes())
        except OSError as error:
            raise InputError(f"{path}: the trace could not be written: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise InputError(f"{path}: not a trace: {error}") from None
        return cls._of(metadata, tensors, str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the file") -> Trace:
        """What `to_bytes` gave, or somebody says so."""
        try:
            tensors = safetensors.torch.load(data)
        except SafetensorError as error:
            raise InputError(f"{name}: not a trace: {error}") from None
        size = int.from_bytes(data[:8], "little")
        metadata = parse(data[8 : 8 + size], name).get("__metadata__", {})
        return cls._of(metadata, tensors, name)

    @classmethod
    def _of(cls, metadata: Mapping[str, str], tensors: dict[str, Tensor], name: str) -> Trace:
        wrong = InputError(f"{name}: not a trace: write one with trace.save(…)")
        if metadata.get("format") != FORMAT or "trace" not in metadata:
            raise wrong
        try:
            about = parse(metadata["trace"], name)
        except CheckpointError:
            raise wrong from None
        lists = [about.get(each) for each in ("tokens", "source_tokens", "order")]
        for each in lists:
            if not isinstance(each, list) or not all(isinstance(text, str) for text in each):
                raise wrong
        tokens, source, order = lists
        config, sentences = about.get("config"), about.get("sentences", [])
        if not isinstance(config, dict) or set(order) != set(tensors):
            raise wrong
        if not isinstance(sentences, list) or not all(type(each) is int for each in sentences):
            raise wrong
        return cls({name: tensors[name] for name in order}, tokens, source, config, sentences)


def _called(name: str, known: Mapping[str, T], call: str) -> T:
    if name not in known:
        raise ConfigError(f"{call} {name!r}: write {', '.join(known)}")
    return known[name]


def nearest(name: str, names: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f": did you mean {close[0]!r}?" if close else f": it has {', '.join(list(names)[:3])} …"
