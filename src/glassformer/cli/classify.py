"""`glassformer classify` and `glassformer follows`: labels for texts and pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from glassformer.cli.common import (
    DEVICE,
    JSON,
    MODEL,
    SINGLE_DOCUMENT,
    listing,
    open_model,
    pairs,
    texts,
)  # fmt: skip
from glassformer.cli.console import Console

TEXT = typer.Argument(None, help="A text; - reads lines from stdin.")
FILE = typer.Option(None, help="Read the texts from this file, one per line.")


def run(
    model: str = MODEL,
    text: str | None = TEXT,
    other: str | None = typer.Argument(None, help="The second text of a pair."),
    file: Path | None = FILE,
    in_pairs: bool = typer.Option(
        False, "--pairs", help="Each line has two texts, separated by a tab."
    ),
    single_document: bool = SINGLE_DOCUMENT,
    top_k: int | None = typer.Option(None, min=1, help="Only the best labels; all, if not given."),
    explain: int = typer.Option(
        0, min=0, help="Also this many words and sentences with the largest weights."
    ),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Classify texts, or pairs of texts. Long texts are read in windows."""
    inputs: Sequence[str | tuple[str, str]]
    if in_pairs or other is not None:
        inputs = pairs(text, other, file)
    else:
        inputs = texts(text, file, single_document=single_document)
    results = open_model(model, device).classify(inputs, top_k=top_k, explain=explain)
    long = sum(result.windows > 1 for result in results)
    if long:
        count = f"{long:,} of {len(results):,} texts"
        typer.echo(
            f"glassformer: {count} are longer than the model reads: they were split into windows",
            err=True,
        )
    if as_json:
        for text_or_pair, result in zip(inputs, results, strict=True):
            typer.echo(json.dumps({"text": text_or_pair, **asdict(result)}, ensure_ascii=False))
        return
    if len(results) == 1:
        table = listing(("label", "score"), list(results[0].scores.items()))
    else:
        shown = [item if isinstance(item, str) else " ⏐ ".join(item) for item in inputs]
        rows = [(r.label, r.score, text) for r, text in zip(results, shown, strict=True)]
        table = listing(("label", "score", "text"), rows)
    console = Console(highlight=False)
    console.print(table)
    for result in results:
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
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """The probability that the second text directly follows the first."""
    inputs = pairs(first, second, file)
    from glassformer.inference import follows as call

    probabilities = call(*open_model(model, device).able("follows"), inputs)
    if as_json:
        for (a, b), probability in zip(inputs, probabilities, strict=True):
            row = {"first": a, "second": b, "probability": probability}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    rows = [(p, *pair) for p, pair in zip(probabilities, inputs, strict=True)]
    Console(highlight=False).print(listing(("probability", "first", "second"), rows))
