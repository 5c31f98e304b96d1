"""What was recorded inside a model, to measure, show, save and load."""

from __future__ import annotations

import inspect
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

import safetensors.torch
from torch import Tensor, nn

from glassformer.errors import CheckpointError, ConfigError, InputError, check_installed
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.stacks import StackName
from glassformer.glass.tables import TABLES, Table
from glassformer.strictjson import parse
from glassformer.tensor_files import open_tensors, read_header

if TYPE_CHECKING:
    from glassformer.glass.figures import Picture

T = TypeVar("T")
TableName = Literal["tokens", "weights", "heads", "predictions", "lens", "path", "alignment"]
FigureName = Literal["map", "head", "lens", "path", "alignment"]
FORMAT = "glassformer-trace-1"


class FigureOptions(TypedDict, total=False):
    """The keyword arguments of `figure`; each kind takes some of them."""

    stack: str | None
    layer: int
    head: int | None  # None: the mean of the layer
    model: nn.Module
    inside: bool
    at: Sequence[int] | None
    token: int | str
    layers: Sequence[int] | None
    reading: bool


class TableOptions(FigureOptions, total=False):
    """The keyword arguments of `table`; each table takes some of them."""

    measure: str
    top_k: int
    width: int
    rows: int


class ViewOptions(TypedDict, total=False):
    """The keyword arguments of `view`."""

    stack: StackName | None
    layer: int
    head: int
    token: int | str | None
    weights: Literal["raw", "mean", "rollout"]
    theme: Literal["", "light", "dark"]
    height: int


@dataclass(frozen=True, eq=False, repr=False)
class Trace(RecordedTensors):
    """A mapping from names to tensors, in the order in which the model computed them.

    trace["encoder.blocks.3.attention.weights"]     (H, T, S)
    trace.find("*.attention.weights")               all layers
    """

    def table(self, what: TableName = "weights", **options: Unpack[TableOptions]) -> Table:
        """A table like those of the lectures: print it, or let a notebook show it.

        Args:
            what: tokens, weights (of one head), heads (one measure of all heads), predictions,
                lens, path or alignment
            options: those of the function of `glass.tables` that draws it

        Examples:
            >>> print(trace.table("tokens"))
            tokens
            ...
            >>> table = trace.table("weights", layer=0, head=1)
        """
        return _draw("table", TABLES, what, self, options)

    def figure(self, kind: FigureName = "map", **options: Unpack[FigureOptions]) -> Picture:
        """A figure: `.savefig("map.png")`, or let a notebook show it. Needs matplotlib.

        Args:
            kind: map (all heads), head, lens, path or alignment
            options: those of the function of `glass.figures` that draws it

        Examples:
            >>> trace.figure("head", layer=0, head=1).savefig("head.png")
        """
        check_installed("a figure", "plot", "matplotlib")
        from glassformer.glass.figures import FIGURES

        return _draw("figure", FIGURES, kind, self, options)

    def view(self, page: Literal["map", "head"] = "map", **options: Unpack[ViewOptions]) -> Any:
        """A page of the studio in a notebook, with this trace in it; no server, no network.

        Args:
            page: map (all heads) or head
            options: those of `gf.view`

        Examples:
            >>> trace.view("head", layer=0, head=1).save("head.html")
        """
        # The studio is above this room, which must not import it: the package itself knows both.
        import glassformer

        return glassformer.view(self, page, **options)

    def to_bytes(self) -> bytes:
        """The content of a safetensors file that `from_bytes` and `load` read.

        Examples:
            >>> len(gf.Trace.from_bytes(trace.to_bytes())) == len(trace)
            True
        """
        about = {
            "tokens": self.tokens,
            "source_tokens": self.source_tokens,
            "config": self.config,
            "sentences": self.sentences,
            "order": list(self.tensors),
        }
        metadata = {"format": FORMAT, "trace": json.dumps(about, ensure_ascii=False)}
        # Two names may share one tensor; in a file each has its own bytes.
        tensors = {name: t.detach().clone().contiguous() for name, t in self.tensors.items()}
        return safetensors.torch.save(tensors, metadata)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to one safetensors file.

        Examples:
            >>> trace.save("cat.safetensors")
        """
        try:
            Path(path).write_bytes(self.to_bytes())
        except OSError as error:
            raise InputError(f"{path}: the trace cannot be written: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a file that `save` wrote; InputError if it is not one.

        Examples:
            >>> trace.save("cat.safetensors")
            >>> gf.Trace.load("cat.safetensors").tokens == trace.tokens
            True
        """
        try:
            with open_tensors(path, "pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except CheckpointError as error:
            if not Path(path).exists():
                raise InputError(f"File not found: {Path(path).absolute()}") from None
            raise InputError(f"not a trace: {error}") from None
        return cls._of(metadata, tensors, str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the file") -> Trace:
        """Read the bytes that `to_bytes` gave; `name` is for errors. The bytes are not trusted.

        Examples:
            >>> gf.Trace.from_bytes(trace.to_bytes()).tokens == trace.tokens
            True
        """
        try:
            header = read_header(io.BytesIO(data), len(data), name)
        except CheckpointError as error:
            raise InputError(f"not a trace: {error}") from None
        return cls._of(header.metadata, safetensors.torch.load(data), name)

    @classmethod
    def _of(cls, metadata: Mapping[str, str], tensors: dict[str, Tensor], name: str) -> Trace:
        wrong = InputError(f"{name}: not a trace: write one with trace.save(…)")
        if metadata.get("format") != FORMAT or "trace" not in metadata:
            raise wrong
        try:
            about = parse(metadata["trace"], name)
        except CheckpointError:
            raise wrong from None
        lists = [about.get(key) for key in ("tokens", "source_tokens", "order")]
        for texts in lists:
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise wrong
        tokens, source, order = lists
        config, sentences = about.get("config"), about.get("sentences", [])
        if not isinstance(config, dict) or set(order) != set(tensors):
            raise wrong
        if not isinstance(sentences, list) or not all(type(count) is int for count in sentences):
            raise wrong
        return cls({name: tensors[name] for name in order}, tokens, source, config, sentences)


def _draw(
    call: str, known: Mapping[str, Callable[..., T]], name: str, trace: Trace,
    options: Mapping[str, Any],
) -> T:  # fmt: skip
    """Call the function of this name; ConfigError if there is none, or it lacks an option."""
    if name not in known:
        raise ConfigError(f"{call} {name!r}: write {', '.join(known)}")
    allowed = [option for option in inspect.signature(known[name]).parameters if option != "trace"]
    for option in options:
        if option not in allowed:
            raise ConfigError(f"{call} {name!r}: no option {option!r}: it has {', '.join(allowed)}")
    return known[name](trace, **options)
