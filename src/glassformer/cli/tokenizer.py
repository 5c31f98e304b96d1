"""`glassformer tokenizer train` and `show`: train a tokenizer on text, and show one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import grid, safe, size, visible, with_paths
from glassformer.cli.console import Console
from glassformer.errors import counted
from glassformer.text.describe import TextSample, describe, longest_tokens, token_rows
from glassformer.text.folder import check_writable, open_tokenizer, write_tokenizer
from glassformer.text.training import (
    DEFAULT_PURPOSE,
    Kind,
    Purpose,
    tokenizer_files,
    train_tokenizer,
)

FOR = {"encoder": "for an encoder", "decoder": "for a decoder", "translation": "for translation"}

app = typer.Typer(help="Train a tokenizer, or show one.", no_args_is_help=True)


@app.command()
@with_paths
def train(
    data: list[Path] = typer.Argument(help="Files or folders: text, .jsonl, .csv …, .gz or .xz."),
    out: Path = typer.Option(help="The folder to write."),
    kind: Kind = typer.Option(
        "bpe", metavar="KIND", help="bpe (of bytes), wordpiece, unigram, chars or bytes."
    ),
    vocab_size: int | None = typer.Option(
        None, metavar="N", help="The largest vocabulary; not for chars and bytes."
    ),
    purpose: Purpose | None = typer.Option(
        None,
        metavar="PURPOSE",
        help="encoder, decoder or translation: decides its special tokens. If not given, wordpiece "
        "is for an encoder, unigram for translation, others for a decoder.",
    ),
    lowercase: bool = typer.Option(False, "--lowercase", help="Convert text to lower case."),
    special: list[str] = typer.Option((), help="Another special token; may be repeated."),
    field: str = typer.Option("", help="The field of a .jsonl, .csv … file; text, if not given."),
    force: bool = typer.Option(False, "--force", help="Replace an existing tokenizer."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Train a tokenizer on text; the same text gives the same tokenizer.

    With --purpose translation, a .tsv file is read as pairs, and both sides are used.
    """
    purpose = purpose or DEFAULT_PURPOSE[kind]
    check_writable(out, force=force)
    texts = chain.from_iterable(_texts(path, field, purpose) for path in data)
    with LearningProgress(texts) as progress:
        tokenizer = train_tokenizer(
            progress, kind, vocab_size, purpose=purpose, lowercase=lowercase, special=special
        )
        for _ in progress:  # a tokenizer of bytes does not read the text
            pass
    write_tokenizer(out, tokenizer_files(tokenizer))
    facts = {"folder": str(out), "purpose": purpose, **describe(tokenizer)}
    facts |= {"asked": vocab_size, "fingerprint": tokenizer.fingerprint}
    facts |= progress.sample.measure(tokenizer, facts["unknown"])
    facts["longest"] = longest_tokens(tokenizer)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _report(facts)


class LearningProgress:
    """Passes texts on, adds them to the sample, and shows on stderr how many bytes there were."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = iter(texts)
        self.sample = TextSample()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        console = Console(stderr=True)
        self.bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )

    def __enter__(self) -> LearningProgress:
        self.bar.start()
        self.task = self.bar.add_task("reading")
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.sample.add(text)
            if self.sample.documents % 100 == 1:
                self.bar.update(self.task, description=f"reading: {size(self.sample.bytes)}")
            yield text
        self.bar.update(self.task, description=f"learning from {size(self.sample.bytes)}")


def _texts(path: Path, field: str, purpose: Purpose) -> Iterable[str]:
    from glassformer.data.readers.files import kind
    from glassformer.data.readers.parallel import pairs
    from glassformer.data.readers.text import documents

    if purpose == "translation" and not field and kind(path) == ".tsv":
        return chain.from_iterable(pairs(path))
    return documents(path, field or "text")


def _report(facts: dict[str, Any]) -> None:
    tokens, measured = f"{facts['size']:,}", f"{facts['bytes_per_token']:.2f}"
    if facts["asked"] and facts["size"] < facts["asked"]:
        tokens += f" (of {facts['asked']:,}: the text gives no more)"
    if facts["sample_bytes"] < facts["bytes"]:
        measured += f" (on a sample of {size(facts['sample_bytes'])})"
    rows = {
        "kind": f"{facts['kind']}, {FOR[facts['purpose']]}",
        "tokens": tokens,
        "special tokens": _special(facts),
        "trained on": f"{counted(facts['documents'], 'texts')}, {size(facts['bytes'])}",
        "bytes per token": measured,
    }
    if facts["unknown"] is not None:
        rows["unknown"] = f"{facts['unknown_share']:.3%} of the tokens"
    if facts["kind"] not in ("chars", "bytes"):
        rows["longest tokens"] = "  ".join(map(visible, facts["longest"]))
    rows["written to"] = facts["folder"]
    Console(highlight=False).print(grid(rows))


@app.command()
@with_paths
def show(
    folder: Path = typer.Argument(help="A folder with a tokenizer."),
    text: list[str] = typer.Argument(
        (), help="Texts to tokenize; lines of stdin, if none is given."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show what a tokenizer is, and how it tokenizes a text."""
    from glassformer.data.readers.files import lines

    tokenizer = open_tokenizer(folder)
    facts = describe(tokenizer)
    if not text and not sys.stdin.isatty():
        text = [line for _, line in lines(sys.stdin.buffer, "stdin")]
    pairs = zip(text, tokenizer.encode_all(text), strict=True)
    tokenized = [(line, token_rows(encoding, facts["unknown"])) for line, encoding in pairs]
    if as_json:
        facts["texts"] = [{"text": line, "tokens": tokens} for line, tokens in tokenized]
        typer.echo(json.dumps(facts, indent=2))
        return
    console = Console(highlight=False)
    rows = {"kind": facts["kind"], "tokens": f"{facts['size']:,}"}
    console.print(grid(rows | {"special tokens": _special(facts)}))
    for line, tokens in tokenized:
        title = Text.assemble((f"\n{len(tokens)} tokens  ", "bold"), (safe(line), "dim"))
        console.print(title, no_wrap=True, overflow="ellipsis")
        console.print(_table(line, tokens))


def _table(text: str, tokens: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("token", overflow="fold")
    table.add_column("text", overflow="fold")
    table.add_column("span", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for token in tokens:
        start, end = token["start"], token["end"]
        style, note = "", ""
        if token["special"]:
            style, note = "dim", "special"
        elif token["unknown"]:
            style, note = "bold red", "unknown"
        span = "" if token["special"] else f"{start}–{end}"
        cells = (f"{token['id']}", visible(token["piece"]), visible(text[start:end]), span, note)
        table.add_row(*(Text(cell, style) for cell in cells))
    return table


def _special(facts: Mapping[str, Any]) -> str:
    return "  ".join(f"{visible(token)} {i}" for token, i in facts["special"].items()) or "none"
