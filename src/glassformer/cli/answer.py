"""`glassformer answer`: where a text answers a question."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from glassformer.cli.common import DEVICE, JSON, MODEL, listing, open_model, texts


def run(
    model: str = MODEL,
    question: str = typer.Argument(help="The question."),
    context: str | None = typer.Argument(None, help="The text to look in; - reads it from stdin."),
    file: Path | None = typer.Option(None, help="The text to look in is this file."),
    top_k: int = typer.Option(1, min=1, help="How many answers, best first."),
    no_answer: bool = typer.Option(False, "--no-answer", help="The text may not answer it."),
    threshold: float = typer.Option(0.0, help="How much more likely that has to be (logits)."),
    max_tokens: int = typer.Option(30, min=1, help="The longest answer."),
    overlap: int | None = typer.Option(None, min=0, help="Tokens that windows share."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Find the answer to a question in a text, of any length."""
    (where,) = texts(context, file, whole=True)
    found = open_model(model, device).answer(
        question, where, top_k=top_k, no_answer=no_answer, threshold=threshold,
        max_tokens=max_tokens, overlap=overlap,
    )  # fmt: skip
    if as_json:
        for each in found:
            typer.echo(json.dumps(asdict(each), ensure_ascii=False))
        return
    rows = [(each.text or "(no answer)", each.score, f"{each.start}–{each.end}") for each in found]
    Console(highlight=False).print(listing(("answer", "score", "characters"), rows))
