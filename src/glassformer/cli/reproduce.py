"""`glassformer reproduce`: published effects, with the paper's figure beside ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from glassformer.cli.common import JSON, listing, open_model
from glassformer.cli.console import Console

NAMES = ("heads", "permuted", "induction", "indirect_objects", "greater_than")
GPT2 = NAMES[3:]


def run(
    names: list[str] | None = typer.Argument(
        None, help="Which effects: heads, permuted, induction, indirect_objects, greater_than."
    ),
    gpt2: Path | None = typer.Option(
        None, help="A folder with the weights of GPT-2 small, which two of the effects need."
    ),
    as_json: bool = JSON,
) -> None:
    """Reproduce published effects on the shipped models and on small ones trained here."""
    chosen = names or list(NAMES)
    missing = [name for name in chosen if name in GPT2 and gpt2 is None]
    if missing:
        line = f"{' and '.join(missing)}: left out: they need GPT-2: write --gpt2 FOLDER"
        typer.echo(line, err=True)
    from glassformer.interpret.reproduce import reproduce

    model = None if gpt2 is None else open_model(str(gpt2), "cpu")
    effects = reproduce(chosen, model)
    if as_json:
        for effect in effects:
            typer.echo(json.dumps(asdict(effect), ensure_ascii=False))
        return
    rows = [
        (each.effect, each.paper, each.published, each.ours, "yes" if each.holds else "no")
        for each in effects
    ]
    titles = ("effect", "paper", "published", "ours", "same sign and order")
    Console(highlight=False).print(listing(titles, rows))
