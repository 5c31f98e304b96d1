"""`glassformer fill`: the words that could stand in a blank."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from glassformer.cli.common import DEVICE, JSON, MODEL, TOP_K, listing, open_model, safe, texts


def run(
    model: str = MODEL,
    text: str | None = typer.Argument(None, help="With [MASK] for words; - reads lines of stdin."),
    file: Path | None = typer.Option(None, help="Read the texts from here, one a line."),
    top_k: int = TOP_K,
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Fill in the blanks of a text: as many as there are, each with its most likely words."""
    given = texts(text, file)
    from glassformer.inference.fill import fill, filled

    found = fill(*open_model(model, device).able("fill"), given, top_k=top_k)
    console = Console(highlight=False)
    for said, blanks in zip(given, found, strict=True):
        whole = filled(said, blanks)
        if as_json:
            row = {"text": said, "filled": whole, "blanks": [asdict(each) for each in blanks]}
            typer.echo(json.dumps(row, ensure_ascii=False))
            continue
        console.print(safe(whole), style="bold", markup=False, soft_wrap=True)
        rows = [
            (str(number), each.text, each.probability)
            for number, blank in enumerate(blanks, 1)
            for each in blank.candidates
        ]
        console.print(listing(("blank", "word", "probability"), rows))
