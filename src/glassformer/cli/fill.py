"""`glassformer fill`: the most likely words for each [MASK]."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from glassformer.cli.common import (
    ADAPTER,
    DEVICE,
    JSON,
    MODEL,
    QUANTIZE,
    TOP_K,
    Method,
    listing,
    open_model,
    safe,
    texts,
)
from glassformer.cli.console import Console
from glassformer.data.table_files import table_of


def run(
    model: str = MODEL,
    text: str | None = typer.Argument(
        None, help="A text with [MASK] in it; - reads lines from stdin."
    ),
    file: Path | None = typer.Option(None, help="Read the texts from this file, one per line."),
    top_k: int = TOP_K,
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    quantize: Method | None = QUANTIZE,
    as_json: bool = JSON,
) -> None:
    """Fill in every [MASK] of a text with its most likely words."""
    table = table_of(texts(text, file))
    from glassformer.inference.fill import fill, filled

    task, tokenizer = open_model(model, device, adapter=adapter, quantize=quantize).able("fill")
    blanks_of = table.apply(lambda texts: fill(task, tokenizer, texts, top_k=top_k))
    console = Console(highlight=False)
    for masked, row_blanks in zip(table.texts, blanks_of, strict=True):
        blanks = row_blanks or []
        best = filled(masked, blanks)
        if as_json:
            row = {"text": masked, "filled": best, "blanks": [asdict(blank) for blank in blanks]}
            typer.echo(json.dumps(row, ensure_ascii=False))
            continue
        console.print(safe(best), style="bold", markup=False, soft_wrap=True)
        rows = [
            (str(number), word.text, word.probability)
            for number, blank in enumerate(blanks, 1)
            for word in blank.candidates
        ]
        console.print(listing(("blank", "word", "probability"), rows))
