"""Arguments, input and tables that several commands share."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

import typer
from rich.table import Table
from rich.text import Text

from glassformer.catalog import RUNS
from glassformer.data.readers.files import lines, read_lines
from glassformer.errors import ConfigError, InputError, printable
from glassformer.recipe.paths import expanded

if TYPE_CHECKING:
    from glassformer.loaded import Model

MODEL = typer.Argument(help="A model folder, a name of `glassformer list`, or of the hub.")
DEVICE = typer.Option("auto", help="auto, cpu, cuda or mps.")
INT8 = typer.Option(
    False, "--int8", help="Round the weights to int8: smaller and faster to read, less exact."
)
JSON = typer.Option(False, "--json", help="Print JSON, one object per line.")
SINGLE_DOCUMENT = typer.Option(False, "--single-document", help="The file, or stdin, is one text.")
TOP_K = typer.Option(5, min=1, help="How many to show, best first.")

JOINERS = "\u200c\u200d"  # inside Persian and Hindi words, and in emoji


class Precision(StrEnum):
    """What --dtype may be."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


def with_paths(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its paths expanded: a shell leaves the ~ of --out=~/run as it is.

    What it writes must lie in a folder that exists, or in runs: a missing folder is a typo.
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        for name, value in options.items():
            if isinstance(value, Path):
                options[name] = expanded(value)
            elif isinstance(value, list):
                options[name] = [expanded(x) if isinstance(x, Path) else x for x in value]
        out = options.get("out")
        if isinstance(out, Path):
            folder = out.parent.parent if out.parent.name == RUNS.name else out.parent
            if not folder.exists():
                raise ConfigError(
                    f"{out}: there is no folder {folder.absolute()}: create it, or correct the path"
                )
        command(**options)

    return run


def open_model(
    name: str, device: str, *, dtype: Precision | None = None, int8: bool = False
) -> Model:
    """Load a model onto the device of --device."""
    if device not in ("auto", "cpu", "cuda", "mps"):
        raise ConfigError(f"--device {device!r}: write auto, cpu, cuda or mps")
    import torch

    from glassformer.distributed import join
    from glassformer.loaded import load

    precision = None if dtype is None else getattr(torch, dtype)
    model = load(name, device=join(device, "--device").device, dtype=precision)
    return model.int8() if int8 else model


def texts(text: str | None, file: Path | None, *, single_document: bool = False) -> list[str]:
    """One text, or the lines of stdin (-) or of a file; `single_document` joins the lines."""
    if (text is None) == (file is None):
        raise ConfigError("give a text, or - for stdin, or --file: one of them")
    if text not in (None, "-"):
        return [str(text)]
    read = lines(sys.stdin.buffer, "stdin") if file is None else read_lines(file)
    rows = [line for _, line in read]
    full = [line for line in rows if line.strip()]
    if not full:
        raise InputError(f"{file or 'stdin'}: there is no text in it: write one per line")
    if single_document:
        return ["\n".join(rows)]
    if len(full) < len(rows):
        empty = f"{len(rows) - len(full):,} of {len(rows):,} lines are empty"
        typer.echo(f"glassformer: {file or 'stdin'}: {empty}: skipped", err=True)
    return full


def pairs(one: str | None, other: str | None, file: Path | None) -> list[tuple[str, str]]:
    """Two texts, or lines with a tab between two texts."""
    if other is not None:
        if one in (None, "-") or file is not None:
            raise ConfigError("give two texts, or - for stdin, or --file: one of them")
        return [(str(one), other)]
    rows = [tuple(line.split("\t")) for line in texts(one, file)]
    for i, pair in enumerate(rows, 1):
        if len(pair) != 2:
            source = file or ("stdin" if one == "-" else "the text")
            more = (
                ", or give the second one as an argument of its own" if source == "the text" else ""
            )
            raise InputError(f"{source}: text {i}: write two texts with a tab between them{more}")
    return [(first, second) for first, second in rows]


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print Python warnings as lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        typer.echo(f"glassformer: {warning.message}", err=True)


def listing(titles: Sequence[str], rows: Iterable[Sequence[str | float]]) -> Table:
    """A table; numbers are right-aligned."""
    body = list(rows)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title, cell in zip(titles, body[0] if body else titles, strict=True):
        table.add_column(
            title, justify="left" if isinstance(cell, str) else "right", overflow="fold"
        )
    for row in body:
        cells = (safe(cell) if isinstance(cell, str) else f"{cell:.4f}" for cell in row)
        table.add_row(*map(Text, cells))
    return table


def grid(rows: Mapping[str, str]) -> Table:
    """Names on the left, values on the right."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def safe(text: str) -> str:
    """Escape control characters: a text must not move the cursor."""
    return printable(text)


def prose(text: str, kept: str = "") -> str:
    """Like `safe`, for text to read: spaces, joiners and the characters `kept` stay."""
    kept += JOINERS
    return "".join(c if c in kept or category(c) == "Zs" else safe(c) for c in text)


def visible(piece: str) -> str:
    """A token with visible spaces."""
    return safe(piece).replace(" ", "␣")


def size(count: int) -> str:
    """A number of bytes, for people."""
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count:,} bytes"
