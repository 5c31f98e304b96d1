"""`glassformer answer`: extract the answer to a question from a text."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from glassformer.cli.common import DEVICE, JSON, MODEL, listing, open_model, texts
from glassformer.cli.console import Console


def run(
    model: str = MODEL,
    question: str = typer.Argument(help="The question."),
    context: str | None = typer.Argument(None, help="The text to search; - reads it from stdin."),
    file: Path | None = typer.Option(None, help="Read the text to search from this file."),
    top_k: int = typer.Option(1, min=1, help="Number of answers, best first."),
    no_answer: bool = typer.Option(False, "--no-answer", help="Allow that the text has no answer."),
    threshold: float = typer.Option(0.0, help="How far its logits must exceed the best answer's."),
    max_tokens: int = typer.Option(30, min=1, help="Longest answer, in tokens."),
    overlap: int | None = typer.Option(None, min=0, help="Tokens that neighbouring windows share."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Find the answer to a question in a text, of any length."""
    (passage,) = texts(context, file, single_document=True)
    answers = open_model(model, device).answer(
        question, passage, top_k=top_k, no_answer=no_answer, threshold=threshold,
        max_tokens=max_tokens, overlap=overlap,
    )  # fmt: skip
    if as_json:
        for answer in answers:
            typer.echo(json.dumps(asdict(answer), ensure_ascii=False))
        return
    rows = [(a.text or "(no answer)", a.score, f"{a.start}–{a.end}") for a in answers]
    Console(highlight=False).print(listing(("answer", "score", "characters"), rows))
