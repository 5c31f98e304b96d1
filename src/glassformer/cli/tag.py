"""`glassformer tag`: a label for each word, and the spans they form."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from glassformer.cli.common import (
    COLUMN,
    DEVICE,
    ENCODING,
    FILE,
    JSON,
    MODEL,
    OUT,
    SINGLE_DOCUMENT,
    TEXTS,
    inputs,
    listing,
    open_model,
    write_predictions,
)  # fmt: skip
from glassformer.cli.console import Console
from glassformer.data.table_files import check_out


def run(
    model: str = MODEL,
    texts: list[str] | None = TEXTS,
    file: Path | None = FILE,
    column: str | None = COLUMN,
    words: bool = typer.Option(False, "--words", help="Words are separated by spaces."),
    single_document: bool = SINGLE_DOCUMENT,
    out: Path | None = OUT,
    encoding: str = ENCODING,
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Label each word: parts of speech, names. Names are shown with their positions.

    --file x.csv --column text --out y.csv writes the table with the words of each row, their labels
    and the names.
    """
    if out is not None:
        check_out(out, file)
    columns = None if column is None else [column]
    table = inputs(texts, file, columns, single_document=single_document, encoding=encoding)
    from glassformer.inference import tag

    split = [line.split() for line in table.texts] if words else table.texts
    tagged_texts = tag(*open_model(model, device).able("tag"), split)
    if out is not None:
        write_predictions(table, [tagged.cells() for tagged in tagged_texts], out)
        return
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
