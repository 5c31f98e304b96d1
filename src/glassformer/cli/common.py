"""What several verbs read and show in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from glassformer.errors import CheckpointError
from glassformer.plain import read
from glassformer.text import Tokenizer

READ = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer_config.json")
MOST_BYTES = 32 << 20  # of one such file


def open_tokenizer(folder: Path) -> Tokenizer:
    found = {name: read(folder, name, MOST_BYTES) for name in READ}
    files = {name: data for name, data in found.items() if data is not None}
    tokenizer = Tokenizer.from_files(files, f"{folder}")
    if tokenizer is None:
        raise CheckpointError(f"{folder}: there is no tokenizer.json: write a folder that has one")
    return tokenizer


def grid(rows: Mapping[str, str]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table


def safe(text: str) -> str:
    """Nothing in a text may move the cursor."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def visible(piece: str) -> str:
    return safe(piece).replace(" ", "␣")


def size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count:,} bytes"
