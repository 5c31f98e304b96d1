"""`glassformer tokenizer train` and `show`: learn a tokenizer from text, and look at one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import READ, grid, open_tokenizer, safe, size, visible
from glassformer.durable import remove, write_whole
from glassformer.errors import ConfigError
from glassformer.text import Encoding, Tokenizer
from glassformer.text.training import (
    DEFAULT_PURPOSE,
    Kind,
    Purpose,
    tokenizer_files,
    train_tokenizer,
)

ALSO = ("special_tokens_map.json", "added_tokens.json")  # of older folders: they would contradict
BLOCK, SAMPLE = 2**12, 2**21  # characters: the pieces, and all, of the text that is measured
FOR = {"encoder": "for an encoder", "decoder": "for a decoder", "translation": "for translation"}

app = typer.Typer(help="Train a tokenizer, or look at one.", no_args_is_help=True)


@app.command()
def train(
    data: list[Path] = typer.Argument(help="Files or folders: text, .jsonl, .csv …, .gz or .xz."),
    out: Path = typer.Option(help="The folder to write."),
    kind: Kind = typer.Option(
        "bpe", metavar="KIND", help="bpe (of bytes), wordpiece, unigram, chars or bytes."
    ),
    vocab_size: int | None = typer.Option(
        None, metavar="N", help="How many pieces at most; chars and bytes know it."
    ),
    purpose: Purpose | None = typer.Option(
        None,
        metavar="PURPOSE",
        help="encoder, decoder or translation: decides its special tokens. If not given, the kind "
        "decides: wordpiece is for an encoder, unigram for translation, others for a decoder.",
    ),
    lowercase: bool = typer.Option(False, "--lowercase", help="Read A as a."),
    special: list[str] = typer.Option((), help="One more special token; may be repeated."),
    field: str = typer.Option("", help="Which field of a .jsonl, .csv … file; else text."),
    force: bool = typer.Option(False, "--force", help="Replace the tokenizer that is there."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Learn a tokenizer from text; the same text gives the same tokenizer.

    With --purpose translation, a .tsv file is read as pairs, and both sides count.
    """
    purpose = purpose or DEFAULT_PURPOSE[kind]
    _check_room(out, force)
    with CorpusOptions(
        chain.from_iterable(_texts(path, field, purpose) for path in data)
    ) as reading:
        tokenizer = train_tokenizer(
            reading, kind, vocab_size, purpose=purpose, lowercase=lowercase, special=special
        )
        for _ in reading:  # what nobody had to read: bytes are known
            pass
    _write(out, tokenizer_files(tokenizer))
    facts = {"folder": str(out), "purpose": purpose, **describe(tokenizer)}
    facts |= {"asked": vocab_size, "fingerprint": tokenizer.fingerprint}
    facts |= reading.measure(tokenizer, facts["unknown"])
    facts["longest"] = _longest(tokenizer)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _report(facts)


class CorpusOptions:
    """The texts on their way: counted, shown on stderr, and every so many kept as a sample."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = iter(texts)
        self.documents = self.bytes = self.blocks = self.held = 0
        self.kept: list[str] = []
        self.every = 1
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        console = Console(stderr=True)
        self.bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )

    def __enter__(self) -> CorpusOptions:
        self.bar.start()
        self.task = self.bar.add_task("reading")
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.documents += 1
            self.bytes += len(text.encode("utf-8", "replace"))
            self._keep(text)
            if self.documents % 100 == 1:
                self.bar.update(self.task, description=f"reading: {size(self.bytes)}")
            yield text
        self.bar.update(self.task, description=f"learning from {size(self.bytes)}")

    def _keep(self, text: str) -> None:
        for start in range(0, len(text), BLOCK):
            if self.blocks % self.every == 0:
                self.kept.append(text[start : start + BLOCK])
                self.held += len(self.kept[-1])
            self.blocks += 1
            if self.held > SAMPLE:
                self.kept = self.kept[::3]  # an odd step: from pairs, both sides are taken
                self.held = sum(map(len, self.kept))
                self.every *= 3

    def measure(self, tokenizer: Tokenizer, unknown: int | None) -> dict[str, Any]:
        ids = list(chain.from_iterable(tokenizer.ids(self.kept)))
        sample = sum(len(text.encode("utf-8")) for text in self.kept)
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "sample_bytes": sample,
            "bytes_per_token": round(sample / max(len(ids), 1), 3),
            "unknown_share": round(sum(i == unknown for i in ids) / max(len(ids), 1), 6),
        }


def _texts(path: Path, field: str, purpose: Purpose) -> Iterable[str]:
    from glassformer.data.readers.files import kind
    from glassformer.data.readers.parallel import pairs
    from glassformer.data.readers.text import documents

    if purpose == "translation" and not field and kind(path) == ".tsv":
        return chain.from_iterable(pairs(path))
    return documents(path, field or "text")


def _check_room(folder: Path, force: bool) -> None:
    """Before the work, not after it."""
    there = [name for name in (*READ, *ALSO) if (folder / name).exists()]
    if there and not force:
        raise ConfigError(f"{folder}: {there[0]} is there: write --force to replace the tokenizer")
    home = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not home.is_dir() or not os.access(home, os.W_OK):
        raise ConfigError(f"{folder}: {home} is no folder to write in")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        write_whole(folder / name, data)
    for name in {*READ, *ALSO} - files.keys():
        remove(folder / name)


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    whole = json.loads(tokenizer.backend.to_str())
    model = whole["model"]
    kind = model["type"].lower()
    if kind == "bpe" and not model["merges"]:
        kind = "bytes" if "ByteLevel" in json.dumps(whole["pre_tokenizer"]) else "chars"
    named = model.get("unk_token")
    return {
        "kind": kind,
        "size": len(tokenizer),
        "special": {each["content"]: each["id"] for each in whole["added_tokens"]},
        "unknown": tokenizer.id(named) if named else model.get("unk_id"),
    }


def _longest(tokenizer: Tokenizer) -> list[str]:
    """The 20 longest pieces, as they stand in a text."""
    special = tokenizer.backend.get_added_tokens_decoder()
    pieces = tokenizer.backend.get_vocab().items()
    ranked = sorted(
        (-len(piece.removeprefix("##")), piece, i) for piece, i in pieces if i not in special
    )
    of_bytes = "ByteLevel" in type(tokenizer.backend.decoder).__name__
    return [tokenizer.decode([i]) if of_bytes else piece for _, piece, i in ranked[:20]]


def _report(facts: dict[str, Any]) -> None:
    pieces, measured = f"{facts['size']:,}", f"{facts['bytes_per_token']:.2f}"
    if facts["asked"] and facts["size"] < facts["asked"]:
        pieces += f" ({facts['asked']:,} were asked for: the text gives no more)"
    if facts["sample_bytes"] < facts["bytes"]:
        measured += f" (on {size(facts['sample_bytes'])}, evenly taken)"
    rows = {
        "kind": f"{facts['kind']}, {FOR[facts['purpose']]}",
        "pieces": pieces,
        "special tokens": _special(facts),
        "learned from": f"{facts['documents']:,} texts, {size(facts['bytes'])}",
        "bytes a token": measured,
    }
    if facts["unknown"] is not None:
        rows["unknown"] = f"{facts['unknown_share']:.3%} of the tokens"
    if facts["kind"] not in ("chars", "bytes"):
        rows["longest pieces"] = "  ".join(map(visible, facts["longest"]))
    rows["written to"] = facts["folder"]
    Console(highlight=False).print(grid(rows))


@app.command()
def show(
    folder: Path = typer.Argument(help="A folder with a tokenizer."),
    text: list[str] = typer.Argument((), help="Texts to cut; else each line of stdin."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Tell what a tokenizer is, and how it cuts a text."""
    from glassformer.data.readers.files import lines

    tokenizer = open_tokenizer(folder)
    facts = describe(tokenizer)
    if not text and not sys.stdin.isatty():
        text = [line for _, line in lines(sys.stdin.buffer, "stdin")]
    cut = list(zip(text, tokenizer.encode_all(text), strict=True))
    if as_json:
        facts["texts"] = [{"text": each, "tokens": _tokens(found, facts)} for each, found in cut]
        typer.echo(json.dumps(facts, indent=2))
        return
    console = Console(highlight=False)
    rows = {"kind": facts["kind"], "pieces": f"{facts['size']:,}"}
    console.print(grid(rows | {"special tokens": _special(facts)}))
    for each, found in cut:
        title = Text.assemble((f"\n{len(found.ids)} tokens  ", "bold"), (safe(each), "dim"))
        console.print(title, no_wrap=True, overflow="ellipsis")
        console.print(_table(each, _tokens(found, facts)))


def _tokens(found: Encoding, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = zip(found.tokens, found.ids, found.spans, found.special, strict=True)
    return [
        {
            "piece": piece,
            "id": i,
            "start": start,
            "end": end,
            "special": special,
            "unknown": i == facts["unknown"] and not special,
        }
        for piece, i, (start, end), special in columns
    ]


def _table(text: str, tokens: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("id", justify="right", no_wrap=True)
    table.add_column("piece", overflow="fold")
    table.add_column("text", overflow="fold")
    table.add_column("span", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in tokens:
        start, end = each["start"], each["end"]
        style, note = "", ""
        if each["special"]:
            style, note = "dim", "special"
        elif each["unknown"]:
            style, note = "bold red", "unknown"
        span = "" if each["special"] else f"{start}–{end}"
        cells = (f"{each['id']}", visible(each["piece"]), visible(text[start:end]), span, note)
        table.add_row(*(Text(cell, style) for cell in cells))
    return table


def _special(facts: Mapping[str, Any]) -> str:
    return "  ".join(f"{visible(token)} {i}" for token, i in facts["special"].items()) or "none"
