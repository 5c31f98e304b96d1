"""`glassformer data prepare` and `stats`: text as token ids on disk, and what is in a text."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from glassformer.cli.common import grid, open_tokenizer, size, visible
from glassformer.cli.tokenizer import describe
from glassformer.data.label_alignment import Document, texts_of
from glassformer.errors import ConfigError, InputError

if TYPE_CHECKING:
    from glassformer.data.stats import CorpusStats


class Kind(StrEnum):
    text = "text"
    sentences = "sentences"
    pairs = "pairs"


EVERY = 5.0  # seconds between lines where there is no terminal
INTERRUPTED = 75

app = typer.Typer(help="Prepare data for training, or look at it.", no_args_is_help=True)
DATA = typer.Argument(help="Files or folders: text, .jsonl, .csv …, .gz or .xz.")
TOKENIZER = typer.Option(help="A folder with a tokenizer.")
KIND = typer.Option(Kind.text, help="What the data is for: masked_lm_nsp takes sentences.")
FIELD = typer.Option("text", help="Which field of a .jsonl, .csv … file.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command()
def prepare(
    data: list[Path] = DATA,
    tokenizer: Path = TOKENIZER,
    out: Path = typer.Option(help="The folder to write."),
    kind: Kind = KIND,
    field: str = FIELD,
    as_json: bool = JSON,
) -> None:
    """Write text as token ids, for recipes to name as data.train.

    Broken off, the same command goes on. Pairs are a .tsv file, or two files line by line.
    """
    from glassformer.data.prepare import prepare as run
    from glassformer.data.readers.files import find_files
    from glassformer.data.readers.tables import sources
    from glassformer.data.store import Store

    found = open_tokenizer(tokenizer)
    files = [file for path in data for file in sources(path)]
    named = [f"{field} of {path}" for path in data]
    read = {str(file): file for source in files for file in find_files(source)}
    try:
        with ReaderOptions(_read(data, kind, field), _bytes(files, kind)) as reading:
            for _ in run(reading, found, out, kind=kind.value, sources=named, files=read):
                pass
    except KeyboardInterrupt:
        typer.echo(f"glassformer: {out}: broken off: the same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    store = Store(out)
    facts: dict[str, Any] = {
        "folder": str(out),
        "documents": store.documents,
        "tokens": {name: sum(each) for name, each in store.meta.tokens.items()},
        "bytes": sum(file.stat().st_size for file in out.iterdir()),
        "shards": len(store.meta.documents),
        "fingerprint": store.meta.fingerprint,
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    tokens = ", ".join(f"{count:,} {name}" for name, count in facts["tokens"].items())
    where = f"{out}: {size(facts['bytes'])}"
    rows = {"documents": f"{facts['documents']:,}", "ids": tokens, "written to": where}
    Console(highlight=False).print(grid(rows))


def _read(data: list[Path], kind: Kind, field: str) -> Iterator[Document]:
    from glassformer.data.readers.files import kind as suffix
    from glassformer.data.readers.parallel import pairs
    from glassformer.data.readers.text import documents

    if kind != "pairs":
        return chain.from_iterable(documents(path, field) for path in data)
    if len(data) == 2 and not any(suffix(path) == ".tsv" for path in data):
        return pairs(data[0], data[1])
    return chain.from_iterable(pairs(path) for path in data)


def _bytes(files: list[Path], kind: Kind) -> int | None:
    """How much text there is to read, where the size of the files tells it."""
    from glassformer.data.readers.files import PACKED
    from glassformer.data.readers.files import kind as suffix
    from glassformer.data.readers.tables import KINDS

    tables = () if kind == "pairs" else KINDS
    for file in files:
        if file.is_dir() or file.suffix.lower() in PACKED or suffix(file) in tables:
            return None
    return sum(file.stat().st_size for file in files)


class ReaderOptions:
    """The documents on their way, counted and shown on stderr."""

    def __init__(self, texts: Iterable[Document], total: int | None) -> None:
        self.texts, self.total = texts, total
        self.documents = self.bytes = 0
        self.begin = self.last = time.monotonic()
        self.console = Console(stderr=True)
        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
        columns += [DownloadColumn(), TimeRemainingColumn()] if total else []
        self.bar = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal
        )

    def __enter__(self) -> ReaderOptions:
        self.bar.start()
        self.task = self.bar.add_task("reading", total=self.total)
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __iter__(self) -> Iterator[Document]:
        for text in self.texts:
            self.documents += 1
            parts = texts_of(text)
            self.bytes += sum(len(part.encode("utf-8", "replace")) + 1 for part in parts)
            yield text
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now < self.last + (0.2 if self.console.is_terminal else EVERY):
            return
        self.last, told = now, f"{self.documents:,} documents"
        self.bar.update(self.task, completed=self.bytes, description=told)
        if not self.console.is_terminal:
            left = ""
            if self.total:
                seconds = (now - self.begin) * max(0, self.total / self.bytes - 1)
                left = f" of {size(self.total)}, about {seconds:.0f} s left"
            self.console.print(f"{told}, {size(self.bytes)}{left}", highlight=False)


@app.command()
def stats(
    data: list[Path] = DATA,
    tokenizer: Path = TOKENIZER,
    length: int | None = typer.Option(None, min=1, help="The longest text a model is to read."),
    kind: Kind = KIND,
    field: str = FIELD,
    as_json: bool = JSON,
) -> None:
    """Count documents, tokens, lengths, unknown tokens and copies, of text or of a store."""
    from glassformer.data.prepare import chunks, encode
    from glassformer.data.readers.tables import sources
    from glassformer.data.stats import EXAMPLES, CorpusStats
    from glassformer.data.store import META

    found = open_tokenizer(tokenizer)
    tally = CorpusStats(describe(found)["unknown"], length)
    if any((path / META).is_file() for path in data):
        _count_store(data, tally, found.fingerprint)
    else:
        files = [file for path in data for file in sources(path)]
        with ReaderOptions(_read(data, kind, field), _bytes(files, kind)) as reading:
            for chunk in chunks(iter(reading)):
                for text, ids in zip(chunk, encode(chunk, found, kind.value), strict=True):
                    before = tally.strange
                    tally.add(ids, text)
                    if tally.strange > before and len(tally.examples) < EXAMPLES:
                        tally.show_unknown(text, found)
    if not tally.documents:
        raise InputError(f"{data[0]}: there is no text in it")
    facts = tally.facts()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _report(facts)


def _count_store(data: list[Path], tally: CorpusStats, fingerprint: str) -> None:
    from glassformer.data.store import Store

    if len(data) > 1:
        raise ConfigError(f"{data[1]}: one store at a time")
    store = Store(data[0])
    store.check(fingerprint)
    columns = [column.lists() for column in store.columns.values()]
    for parts in zip(*columns, strict=True):
        ids = dict(zip(store.columns, parts, strict=True))
        if store.end:
            ids["tokens"] = ids["tokens"][: -len(store.end)]
        tally.add(ids)


def _report(facts: dict[str, Any]) -> None:
    console, tokens = Console(highlight=False), facts["tokens"]
    copies = facts["copies"]
    again = f"{copies:,} ({copies / facts['documents']:.1%}) of them copies of another"
    rows = {
        "documents": f"{facts['documents']:,}, {again if copies else 'no two the same'}",
        "tokens": f"{tokens:,}",
    }
    if "characters" in facts:
        each = facts["characters"] / max(1, tokens)
        rows["characters"] = f"{facts['characters']:,}, {each:.2f} a token"
    if "unknown" in facts:
        words = "  ".join(map(visible, facts["unknown_examples"]))
        share = f"{facts['unknown']:,} tokens ({facts['unknown'] / max(1, tokens):.3%})"
        rows["unknown"] = f"{share}: {words}" if words else share
    for name, found in facts.get("cut", {}).items():
        what = "longer" if name == "tokens" else f"{name} longer"
        share = found["tokens"] / max(1, tokens)
        rows[f"{what} than {facts['length']:,}"] = (
            f"{found['documents']:,} documents: cut there, {found['tokens']:,} tokens "
            f"({share:.1%}) are lost; {found['windows']:,} windows hold all"
        )
    console.print(grid(rows))
    for name, found in facts["lengths"].items():
        of = f"tokens of a {name}" if name in ("source", "target") else f"{name} of a document"
        console.print(Text.assemble((f"\n{of}", "bold"), ":", _spread(found)))
        _draw(found["histogram"], console)


def _spread(found: dict[str, Any]) -> str:
    return (
        f" {found['min']:,} to {found['max']:,}, median {found['median']:,}, mean "
        f"{found['mean']:,.1f}, 95 % ≤ {found['95 %']:,}"
    )


def _draw(histogram: list[tuple[int, int, int]], console: Console) -> None:
    most, empty = max(count for _, _, count in histogram), False
    for low, high, count in histogram:
        if count:
            label = f"{low:,}" if low == high else f"{low:,}–{high:,}"
            console.print(f"{label:>17}  {'█' * max(1, round(40 * count / most))} {count:,}")
        elif not empty:
            console.print(f"{'⋮':>17}")
        empty = not count
