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
from rich import table as rich
from rich.text import Text

from glassformer.catalog import RUNS
from glassformer.data.readers.files import UTF8, check_encoding, kind, lines, read_lines, stop
from glassformer.data.table_files import (
    Cells,
    DataTable,
    is_table,
    read_table,
    table_of,
    which_column,
    write_table,
)
from glassformer.errors import ConfigError, InputError, printable
from glassformer.recipe.paths import expanded

if TYPE_CHECKING:
    from glassformer.loaded import Model


def known_encoding(name: str) -> str:
    """The value of --encoding, even if no file is read."""
    check_encoding(name)
    return name


MODEL = typer.Argument(help="A model folder, a name of `glassformer list`, or of the hub.")
DEVICE = typer.Option("auto", help="auto, cpu, cuda or mps.")
ADAPTER = typer.Option(
    None, help="A folder with an adapter in PEFT's layout, to be merged into the model's weights."
)
QUANTIZE = typer.Option(
    None, help="Round the weights to int8 or int4: smaller and faster to read, less exact."
)
JSON = typer.Option(False, "--json", help="Print JSON, one object per line.")
TEXTS = typer.Argument(None, help="Texts; - reads lines from stdin.")
FILE = typer.Option(None, help="Read the texts from this file: one per line, or --column.")
COLUMN = typer.Option(
    None, help="The column of the texts in a .csv, .tsv, .jsonl or .parquet file: its name, or its "
    "number from 1, if there is no header line.",
)  # fmt: skip
OUT = typer.Option(None, help="Write a table with the predictions: .csv, .tsv, .jsonl or .parquet.")
ENCODING = typer.Option(
    UTF8, help="The encoding of the file, such as utf-16 or cp1252.", callback=known_encoding
)
SINGLE_DOCUMENT = typer.Option(False, "--single-document", help="The file, or stdin, is one text.")
TOP_K = typer.Option(5, min=1, help="How many to show, best first.")

JOINERS = "\u200c\u200d"  # inside Persian and Hindi words, and in emoji


class Method(StrEnum):
    """What --quantize may be."""

    int8 = "int8"
    int4 = "int4"


class Precision(StrEnum):
    """What --dtype may be."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


def with_paths(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its options checked and their paths expanded: a shell leaves the ~ of
    --out=~/run as it is.

    What it writes must lie in a folder that exists, or in runs: a missing folder is a typo.
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        for name, value in options.items():
            if isinstance(value, Path):
                options[name] = expanded(value)
            elif isinstance(value, int | float) and not abs(value) < 1 << 63:  # or NaN
                option = name.replace("_", "-")
                raise ConfigError(f"--{option} {value}: write a finite number of at most 18 digits")
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
    name: str, device: str, *, dtype: Precision | None = None, quantize: Method | None = None,
    adapter: Path | None = None,
) -> Model:  # fmt: skip
    """Load a model onto the device of --device, merge the adapter of --adapter into it, and
    round its weights as --quantize says."""
    if " " in name and not expanded(name).exists():
        raise ConfigError(f"{name!r} is not a model: write the model first, then the text")
    import torch

    from glassformer.distributed import resolve_device
    from glassformer.loaded import load

    precision = None if dtype is None else getattr(torch, dtype)
    place = resolve_device(device, "--device")
    model = load(name, device=place, dtype=precision, adapter=adapter)
    model = model if adapter is None else model.merge_adapter()
    return model if quantize is None else model.quantize(quantize)


def inputs(
    arguments: Sequence[str] | None, file: Path | None, columns: Sequence[str] | None = None, *,
    pair: bool = False, single_document: bool = False, encoding: str = UTF8,
) -> DataTable:  # fmt: skip
    """The texts of a command, or pairs of texts: its arguments, lines, or columns of a table."""
    if columns:
        if file is None or arguments:
            raise ConfigError(f"--column {columns[0]} is for a table: write --file, and no text")
        if pair and len(columns) == 1:
            raise ConfigError("--pair: write --column twice, once for each text of a pair")
        return read_table(file, columns, encoding)
    if pair:
        return table_of(pairs(arguments, file, encoding))
    read = [
        t for text in arguments or () for t in texts(text, None, single_document=single_document)
    ]
    if file is None and read:
        return table_of(read)
    if read:
        raise ConfigError("give texts, or - for stdin, or --file: one of them")
    if file is not None and is_table(file):
        raise which_column(file, encoding)
    return table_of(texts(None, file, single_document=single_document, encoding=encoding))


def texts(
    text: str | None, file: Path | None, *, single_document: bool = False, encoding: str = UTF8
) -> list[str]:
    """One text, or the lines of stdin (-) or of a file, of which some may be empty;
    `single_document` joins the lines."""
    if (text is None) == (file is None):
        raise ConfigError("give a text, or - for stdin, or --file: one of them")
    if text is not None and text != "-":
        if not text.strip():
            raise InputError("the text is empty: write one")
        return [text]
    if file is not None and is_table(file):
        raise InputError(
            f"{file}: this is a table: save the texts to use in a .txt file, one per line"
        )
    name = str(file or "stdin")
    read = lines(sys.stdin.buffer, name) if file is None else read_lines(file, stop, encoding)
    rows = [line for _, line in read]
    if not any(map(str.strip, rows)):
        raise InputError(f"{name}: there is no text in it: write one per line")
    return ["\n".join(rows)] if single_document else rows


def pairs(
    arguments: Sequence[str] | None, file: Path | None, encoding: str = UTF8
) -> list[tuple[str, str]]:
    """Two texts, or lines with a tab between two texts; an empty line is a pair of empty ones."""
    if arguments and len(arguments) > 1:
        if len(arguments) > 2 or "-" in arguments or file is not None:
            raise ConfigError("give two texts, or - for stdin, or --file: one of them")
        return [(arguments[0], arguments[1])]
    if arguments and file is None and arguments[0] != "-":
        raise ConfigError("a pair has two texts: write the second one, too")
    if file is not None and kind(file) == ".tsv":  # two columns, whatever their names
        rows = [line for _, line in read_lines(file, stop, encoding)]
    else:
        rows = texts(arguments[0] if arguments else None, file, encoding=encoding)
    for number, line in enumerate(rows, 1):
        if line.strip() and line.count("\t") != 1:
            raise InputError(
                f"{file or 'stdin'}: line {number}: write two texts with a tab between them"
            )
    return [(first, second) for first, _, second in (line.partition("\t") for line in rows)]


def write_predictions(table: DataTable, cells: Sequence[Cells | None], out: Path) -> None:
    """Write the table with these columns, and say so."""
    whole = table.with_cells(cells)
    write_table(whole, out)
    added = whole.names[len(table.names) :]
    many = f"{', '.join(added[:3])} …" if len(added) > 4 else " and ".join(added)
    typer.echo(f"{out}: {len(whole.rows):,} rows, with {many}")


def ignore_emulation() -> None:
    """torch warns, with a stack trace, when a CPU emulates products in half precision."""
    warnings.filterwarnings("ignore", "mkldnn_matmul failed", UserWarning)


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print Python warnings as lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        ignore_emulation()
        yield
    for warning in caught:
        typer.echo(f"glassformer: {warning.message}", err=True)


def listing(titles: Sequence[str], rows: Iterable[Sequence[str | float]]) -> rich.Table:
    """A table; numbers are right-aligned."""
    body = list(rows)
    table = rich.Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title, cell in zip(titles, body[0] if body else titles, strict=True):
        table.add_column(
            Text(safe(title)), justify="left" if isinstance(cell, str) else "right", overflow="fold"
        )
    for row in body:
        cells = (safe(cell) if isinstance(cell, str) else f"{cell:.4f}" for cell in row)
        table.add_row(*map(Text, cells))
    return table


def grid(rows: Mapping[str, str]) -> rich.Table:
    """Names on the left, values on the right."""
    table = rich.Table(show_header=False, box=None, padding=(0, 2, 0, 0))
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
