"""`glassformer tag`: a label for each word, and the names they make."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from glassformer.cli.common import DEVICE, JSON, MODEL, listing, open_model, texts


def run(
    model: str = MODEL,
    text: str | None = typer.Argument(None, help="A text; - reads lines from stdin."),
    file: Path | None = typer.Option(None, help="Read the texts from here, one a line."),
    words: bool = typer.Option(False, "--words", help="Words are what stands between spaces."),
    single_document: bool = typer.Option(False, help="The file, or stdin, is one text."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Label each word: parts of speech, names. Names are shown with their places."""
    given = texts(text, file, whole=single_document)
    from glassformer.inference import tag

    wanted = [each.split() for each in given] if words else given
    found = tag(*open_model(model, device).able("tag"), wanted)
    console = Console(highlight=False)
    for each in found:
        if as_json:
            typer.echo(json.dumps(asdict(each), ensure_ascii=False))
            continue
        rows = [(word.text, word.label, word.score) for word in each.words]
        console.print(listing(("word", "label", "score"), rows))
        if each.spans:
            named = [(s.text, s.label, s.score, f"{s.start}–{s.end}") for s in each.spans]
            console.print("", listing(("span", "label", "score", "characters"), named), sep="\n")
