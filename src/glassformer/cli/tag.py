"""`glassformer tag`: a label for each word, and the spans they form."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from glassformer.cli.common import listing, write_predictions
from glassformer.cli.console import Console
from glassformer.cli.text_options import TextOptions, reads_texts


@reads_texts
def run(
    options: TextOptions,
    words: bool = typer.Option(False, "--words", help="Words are separated by spaces."),
) -> None:
    """Label each word: parts of speech, names. Names are shown with their positions.

    --file x.csv --column text --out y.csv writes the table with the words of each row, their labels
    and the names.
    """
    table = options.read()
    from glassformer.inference import tag

    split = [line.split() for line in table.texts] if words else table.texts
    tagged_texts = tag(*options.load().able("tag"), split)
    if options.out is not None:
        write_predictions(table, [tagged.cells() for tagged in tagged_texts], options.out)
        return
    console = Console(highlight=False)
    for tagged in tagged_texts:
        if options.as_json:
            typer.echo(json.dumps(asdict(tagged), ensure_ascii=False))
            continue
        rows = [(word.text, word.label, word.score) for word in tagged.words]
        console.print(listing(("word", "label", "score"), rows))
        if tagged.spans:
            named = [(s.text, s.label, s.score, f"{s.start}–{s.end}") for s in tagged.spans]
            console.print("", listing(("span", "label", "score", "characters"), named), sep="\n")
