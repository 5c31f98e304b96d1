"""Options of the commands that read texts, or a column of a table. Each is declared once, here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.models import ArgumentInfo

from glassformer.cli.common import (
    ADAPTER,
    COLUMN,
    DEVICE,
    ENCODING,
    FILE,
    JSON,
    MODEL,
    QUANTIZE,
    SINGLE_DOCUMENT,
    TEXTS,
    Method,
    inputs,
    open_model,
)
from glassformer.data.table_files import DataTable, check_out
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.loaded import Model

# In --help, after the command's own.
LAST = ("out", "encoding", "adapter", "device", "quantize", "as_json")


@dataclass(frozen=True)
class TextOptions:
    """Which model reads which texts, and where the results go."""

    model: str = MODEL
    texts: list[str] | None = TEXTS
    file: Path | None = FILE
    column: list[str] | None = COLUMN
    single_document: bool = SINGLE_DOCUMENT
    out: Path | None = typer.Option(
        None, help="Write a table with the results: .csv, .tsv, .jsonl or .parquet (vectors also "
        "as .npy).",
    )  # fmt: skip
    encoding: str = ENCODING
    adapter: Path | None = ADAPTER
    device: str = DEVICE
    quantize: Method | None = QUANTIZE
    as_json: bool = JSON

    def read(self, *, columns: int = 1, pair: bool = False, vectors: bool = False) -> DataTable:
        """The texts, or pairs of texts, after a check that --out can be written.

        Args:
            columns: how many --column may name
            pair: each line is a pair of texts
            vectors: the results are vectors
        """
        if self.out is not None:
            check_out(self.out, self.file, vectors=vectors)
        if self.column and len(self.column) > columns:
            many = "one" if columns == 1 else "one, or two for a pair"
            raise ConfigError(f"--column: {len(self.column)} columns: write {many}")
        return inputs(
            self.texts, self.file, self.column, pair=pair, single_document=self.single_document,
            encoding=self.encoding,
        )  # fmt: skip

    def load(self) -> Model:
        return open_model(self.model, self.device, adapter=self.adapter, quantize=self.quantize)


def reads_texts(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command, which gets them as its first argument."""
    return with_fields(TextOptions, LAST)(command)


def with_fields(
    kind: type, last: Sequence[str]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the fields of a dataclass to a command as arguments and options; the command gets the
    dataclass as its first argument.

    Its own arguments stand after the first field, its own options before those named in `last`.
    """
    types = get_type_hints(kind)
    shared = {
        field.name: inspect.Parameter(
            field.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=field.default,
            annotation=types[field.name],
        )
        for field in fields(kind)
    }  # fmt: skip

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            command(kind(**{name: options.pop(name) for name in shared}), **options)

        signature = inspect.signature(command)
        own = list(signature.parameters.values())[1:]
        arguments = [each for each in own if isinstance(each.default, ArgumentInfo)]
        rest = [each for each in own if each.kind is each.VAR_KEYWORD]
        others = [each for each in own if each not in arguments and each not in rest]
        first, *middle = [each for name, each in shared.items() if name not in last]
        parameters = [first, *arguments, *middle, *others, *(shared[name] for name in last), *rest]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate
