"""`glassformer data prepare` and `stats`: token ids on disk, and statistics of a corpus."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from glassformer.cli.common import ENCODING, grid, size, visible, with_paths
from glassformer.cli.console import Console
from glassformer.data.label_alignment import Document
from glassformer.data.prepare import text_bytes
from glassformer.data.readers.files import UTF8
from glassformer.errors import counted
from glassformer.progress import LiveLine
from glassformer.text.folder import open_tokenizer


class Kind(StrEnum):
    """What --kind may be."""

    text = "text"
    sentences = "sentences"
    pairs = "pairs"


INTERRUPTED = 75

app = typer.Typer(help="Prepare data for training, or show statistics.", no_args_is_help=True)
DATA = typer.Argument(help="Files or folders: text, .jsonl, .csv …, .gz or .xz.")
TOKENIZER = typer.Option(help="A folder with a tokenizer.")
KIND = typer.Option(Kind.text, help="What the data is for: masked_lm_nsp takes sentences.")
FIELD = typer.Option("text", help="Which field of a .jsonl, .csv … file.")
JSON = typer.Option(False, "--json", help="Print JSON.")


@app.command()
@with_paths
def prepare(
    data: list[Path] = DATA,
    tokenizer: Path = TOKENIZER,
    out: Path = typer.Option(help="The folder to write."),
    kind: Kind = KIND,
    field: str = FIELD,
    encoding: str = ENCODING,
    workers: int = typer.Option(1, min=1, max=1_000, help="Processes that encode the text."),
    as_json: bool = JSON,
) -> None:
    """Write text as token ids, for data.train of a recipe.

    Interrupt it at any time; run the same command to resume. Pairs are a .tsv file, or two files
    line by line.
    """
    from glassformer.data.corpus import corpus_bytes, corpus_files, read_corpus
    from glassformer.data.prepare import prepare as run
    from glassformer.data.readers.files import find_files
    from glassformer.data.store import Store

    opened = open_tokenizer(tokenizer)
    coded = "" if encoding == UTF8 else f" in {encoding}"
    named = [f"{field} of {path}{coded}" for path in data]
    files = {str(file): file for source in corpus_files(data) for file in find_files(source)}
    texts = read_corpus(data, kind.value, field, encoding)
    try:
        with ReadingProgress(texts, corpus_bytes(data, kind.value)) as progress:
            options: dict[str, Any] = {"sources": named, "files": files, "workers": workers}
            for _ in run(progress, opened, out, kind=kind.value, **options):
                pass
    except KeyboardInterrupt:
        typer.echo(f"glassformer: {out}: interrupted: run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None
    store = Store(out)
    summary: dict[str, Any] = {
        "folder": str(out),
        "documents": store.documents,
        "tokens": {name: sum(counts) for name, counts in store.meta.tokens.items()},
        "bytes": sum(file.stat().st_size for file in out.iterdir()),
        "shards": len(store.meta.documents),
        "fingerprint": store.meta.fingerprint,
    }
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
        return
    tokens = ", ".join(f"{count:,} {name}" for name, count in summary["tokens"].items())
    where = f"{out}: {size(summary['bytes'])}"
    rows = {"documents": f"{summary['documents']:,}", "ids": tokens, "written to": where}
    Console(highlight=False).print(grid(rows))


class ReadingProgress:
    """Passes documents on, and shows on stderr how many there were and the time left."""

    def __init__(self, texts: Iterable[Document], total: int | None) -> None:
        self.texts, self.total = texts, total
        self.live = LiveLine(Console(stderr=True))

    def __enter__(self) -> ReadingProgress:
        self.live.begin("reading")
        return self

    def __exit__(self, *error: object) -> None:
        self.live.close()

    def __iter__(self) -> Iterator[Document]:
        read = 0
        for number, text in enumerate(self.texts, 1):
            read += text_bytes(text)
            yield text
            if self.live.due():
                share = min(1.0, read / self.total) if self.total else None
                of = f" of {size(self.total)}" if self.total else ""
                self.live.show("reading", share, counted(number, "documents"), f"{size(read)}{of}")


@app.command()
@with_paths
def stats(
    data: list[Path] = DATA,
    tokenizer: Path = TOKENIZER,
    length: int | None = typer.Option(None, min=1, help="The most tokens that a model is to read."),
    kind: Kind = KIND,
    field: str = FIELD,
    encoding: str = ENCODING,
    as_json: bool = JSON,
) -> None:
    """Count the documents, tokens, lengths, unknown tokens and duplicates of text or of a store."""
    from glassformer.data.corpus import (
        check_not_empty,
        corpus_bytes,
        corpus_stats,
        is_store,
        read_corpus,
        store_stats,
    )  # fmt: skip

    opened = open_tokenizer(tokenizer)
    if any(map(is_store, data)):
        counted = store_stats(data, opened, length)
    else:
        texts = read_corpus(data, kind.value, field, encoding)
        with ReadingProgress(texts, corpus_bytes(data, kind.value)) as progress:
            counted = corpus_stats(progress, opened, kind.value, length)
    check_not_empty(counted, data[0])
    summary = counted.facts()
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _report(summary)


def _report(summary: dict[str, Any]) -> None:
    console, tokens = Console(highlight=False), summary["tokens"]
    copies = summary["copies"]
    duplicates = f"{copies:,} ({copies / summary['documents']:.1%}) of them duplicates"
    rows = {
        "documents": f"{summary['documents']:,}, {duplicates if copies else 'no duplicates'}",
        "tokens": f"{tokens:,}",
    }
    if "characters" in summary:
        per_token = summary["characters"] / max(1, tokens)
        rows["characters"] = f"{summary['characters']:,}, {per_token:.2f} per token"
    if "unknown" in summary:
        words = "  ".join(map(visible, summary["unknown_examples"]))
        share = f"{summary['unknown']:,} tokens ({summary['unknown'] / max(1, tokens):.3%})"
        rows["unknown"] = f"{share}: {words}" if words else share
    for name, cut in summary.get("cut", {}).items():
        what = "longer" if name == "tokens" else f"{name} longer"
        share = cut["tokens"] / max(1, tokens)
        rows[f"{what} than {summary['length']:,}"] = (
            f"{counted(cut['documents'], 'documents')}: truncated, {cut['tokens']:,} tokens "
            f"({share:.1%}) are lost; {counted(cut['windows'], 'windows')} hold all"
        )
    console.print(grid(rows))
    for name, lengths in summary["lengths"].items():
        of = f"tokens of a {name}" if name in ("source", "target") else f"{name} of a document"
        console.print(Text.assemble((f"\n{of}", "bold"), ":", _spread(lengths)))
        _draw(lengths["histogram"], console)


def _spread(lengths: dict[str, Any]) -> str:
    return (
        f" {lengths['min']:,} to {lengths['max']:,}, median {lengths['median']:,}, mean "
        f"{lengths['mean']:,.1f}, 95 % ≤ {lengths['95 %']:,}"
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
