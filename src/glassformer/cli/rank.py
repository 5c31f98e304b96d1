"""`glassformer rank`: texts by their relevance to a query."""

from __future__ import annotations

import json

import typer

from glassformer.cli.common import listing, warnings_on_stderr, write_predictions
from glassformer.cli.console import Console
from glassformer.cli.text_options import TextOptions, reads_texts


@reads_texts
def run(
    options: TextOptions,
    query: str = typer.Argument(help="What the texts are compared with, such as a question."),
    top_k: int | None = typer.Option(None, min=1, help="Only the best texts; all, if not given."),
) -> None:
    """Rank texts by their relevance to a query, with a cross-encoder.

    --file x.csv --column text --out y.csv writes the table with the score and the rank of each row.
    """
    table = options.read()
    loaded = options.load()
    with warnings_on_stderr():
        results = table.apply(
            lambda texts: sorted(loaded.rank(query, texts), key=lambda each: each.index)
        )
    ranked = [(place, each) for place, each in enumerate(results) if each is not None]
    best = sorted(ranked, key=lambda row: -row[1].score)
    if options.out is not None:
        ranks = {place: number for number, (place, _) in enumerate(best, 1)}
        cells = [
            None if each is None else {"score": each.score, "rank": ranks[place]}
            for place, each in enumerate(results)
        ]
        write_predictions(table, cells, options.out)
        return
    rows = [(each.score, str(place + 1), each.text) for place, each in best[:top_k]]
    if options.as_json:
        for score, number, text in rows:
            row = {"text": text, "number": int(number), "score": score}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    Console(highlight=False).print(listing(("score", "number", "text"), rows))
