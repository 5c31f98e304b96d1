"""`glassformer tag`: a label for each word, and the spans they form."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from glassformer.cli.common import DEVICE, JSON, MODEL, SINGLE_DOCUMENT, listing, open_model, texts
from glassformer.cli.console import Console


def run(
    model: str = MODEL,
    text: str | None = typer.Argument(None, help="A text; - reads lines from stdin."),
    file: Path | None = typer.Option(None, help="Read the texts from this file, one per line."),
    words: bool = typer.Option(False, "--words", help="Words are separated by spaces."),
    single_document: bool = SINGLE_DOCUMENT,
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Label each word: parts of speech, names. Names are shown with their positions."""
    inputs = texts(text, file, single_document=single_document)
    from glassformer.inference import tag

    split = [line.split() for line in inputs] if words else inputs
    tagged_texts = tag(*open_model(model, device).able("tag"), split)
    console = Console(highlight=False)
    for tagged in tagged_texts:
        if as_json:
            typer.echo(json.dumps(asdict(tagged), ensure_ascii=False))
            continue
        rows = [(word.text, word.label, word.score) for word in tagged.words]
        console.print(listing(("word", "label", "score"), rows))
        if tagged.spans:
            named = [(s.text, s.label, s.score, f"{s.start}–{s.end}") for s in tagged.spans]
            console.print("", listing(("span", "label", "score", "characters"), named), sep="\n")
