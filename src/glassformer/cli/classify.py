"""`glassformer classify` and `glassformer follows`: labels for texts and pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from glassformer.cli.common import DEVICE, JSON, MODEL, listing, open_model, pairs, texts

TEXT = typer.Argument(None, help="A text; - reads lines from stdin.")
FILE = typer.Option(None, help="Read the texts from here, one a line.")


def run(
    model: str = MODEL,
    text: str | None = TEXT,
    other: str | None = typer.Argument(None, help="The second text of a pair."),
    file: Path | None = FILE,
    in_pairs: bool = typer.Option(False, "--pairs", help="A line is two texts, by a tab."),
    single_document: bool = typer.Option(False, help="The file, or stdin, is one text."),
    top_k: int | None = typer.Option(None, min=1, help="The best labels only; else all."),
    explain: int = typer.Option(0, min=0, help="So many words and sentences that weighed most."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Say which label a text, or a pair of texts, has. Long ones are read in windows."""
    given: Sequence[str | tuple[str, str]]
    if in_pairs or other is not None:
        given = pairs(text, other, file)
    else:
        given = texts(text, file, whole=single_document)
    found = open_model(model, device).classify(given, top_k=top_k, explain=explain)
    long = sum(each.windows > 1 for each in found)
    if long:
        count = f"{long:,} of {len(found):,} texts"
        typer.echo(f"glassformer: {count} are longer than the model: read in windows", err=True)
    if as_json:
        for said, each in zip(given, found, strict=True):
            typer.echo(json.dumps({"text": said, **asdict(each)}, ensure_ascii=False))
        return
    if len(found) == 1:
        table = listing(("label", "score"), list(found[0].scores.items()))
    else:
        shown = [each if isinstance(each, str) else " ⏐ ".join(each) for each in given]
        rows = [(each.label, each.score, said) for each, said in zip(found, shown, strict=True)]
        table = listing(("label", "score", "text"), rows)
    console = Console(highlight=False)
    console.print(table)
    for each in found:
        for title, ranked in (("word", each.words), ("sentence", each.sentences)):
            if ranked:
                console.print(listing(("weight", title), [(share, x) for x, share in ranked]))


def follows(
    model: str = MODEL,
    first: str | None = typer.Argument(None, help="A text; - reads lines from stdin."),
    second: str | None = typer.Argument(None, help="The text that may come after it."),
    file: Path | None = typer.Option(None, help="Read pairs from here, a line each, by a tab."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Say how likely it is that the second text comes right after the first."""
    given = pairs(first, second, file)
    from glassformer.inference import follows as call

    found = call(*open_model(model, device).able("follows"), given)
    if as_json:
        for (a, b), probability in zip(given, found, strict=True):
            row = {"first": a, "second": b, "probability": probability}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    rows = [(each, *pair) for each, pair in zip(found, given, strict=True)]
    Console(highlight=False).print(listing(("probability", "first", "second"), rows))
