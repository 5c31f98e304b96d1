"""`glassformer classify` and `glassformer follows`: labels for texts and pairs of texts."""

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
    Method,
    listing,
    open_model,
    pairs,
    write_predictions,
)
from glassformer.cli.console import Console
from glassformer.cli.text_options import TextOptions, reads_texts
from glassformer.data.table_files import table_of


@reads_texts
def run(
    options: TextOptions,
    pair: bool = typer.Option(
        False, "--pair", help="Classify pairs: two texts, or lines with a tab between two."
    ),
    top_k: int | None = typer.Option(None, min=1, help="Only the best labels; all, if not given."),
    explain: int = typer.Option(
        0, min=0, help="Also this many words and sentences with the largest weights."
    ),
) -> None:
    """Classify texts, or pairs of texts. Long texts are read in windows.

    --file x.csv --column text --out y.csv writes the table with a label and a probability for each
    row; --column twice names the columns of a pair.
    """
    table = options.read(columns=2, pair=pair)
    loaded = options.load()
    results = table.apply(lambda texts: loaded.classify(texts, top_k=top_k, explain=explain))
    long = sum(result is not None and result.windows > 1 for result in results)
    if long:
        count = f"{long:,} of {len(results):,} texts"
        typer.echo(
            f"glassformer: {count} are longer than the model reads: they were split into windows",
            err=True,
        )
    if options.out is not None:
        spec = loaded.task.spec
        write_predictions(
            table, [None if r is None else r.cells(spec) for r in results], options.out
        )
        return
    if options.as_json:
        for text, result in zip(table.texts, results, strict=True):
            fields = {"label": None, "score": None} if result is None else asdict(result)
            typer.echo(json.dumps({"text": text, **fields}, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if len(results) == 1 and results[0] is not None:
        console.print(listing(("label", "score"), list(results[0].scores.items())))
    else:
        shown = [item if isinstance(item, str) else " ⏐ ".join(item) for item in table.texts]
        rows = [
            ("", "", text) if r is None else (r.label, r.score, text)
            for r, text in zip(results, shown, strict=True)
        ]
        console.print(listing(("label", "score", "text"), rows))
    for result in results:
        if result is None:
            continue
        for title, ranked in (("word", result.words), ("sentence", result.sentences)):
            if ranked:
                console.print(listing(("weight", title), [(share, name) for name, share in ranked]))


def follows(
    model: str = MODEL,
    first: str | None = typer.Argument(None, help="A text; - reads lines from stdin."),
    second: str | None = typer.Argument(None, help="The text that may follow it."),
    file: Path | None = typer.Option(
        None, help="Read pairs from this file, one per line, separated by a tab."
    ),
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    quantize: Method | None = QUANTIZE,
    as_json: bool = JSON,
) -> None:
    """The probability that the second text directly follows the first."""
    table = table_of(pairs([text for text in (first, second) if text is not None], file))
    from glassformer.inference import follows as call

    task, tokenizer = open_model(model, device, adapter=adapter, quantize=quantize).able("follows")
    probabilities = table.apply(lambda pairs: call(task, tokenizer, pairs))
    if as_json:
        for (a, b), probability in zip(table.texts, probabilities, strict=True):
            row = {"first": a, "second": b, "probability": probability}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    rows = [
        ("" if p is None else p, *pair) for p, pair in zip(probabilities, table.texts, strict=True)
    ]
    Console(highlight=False).print(listing(("probability", "first", "second"), rows))
