"""`glassformer reproduce`: published effects, with the paper's figure beside ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import typer

from glassformer.cli.common import JSON, listing, open_model
from glassformer.cli.console import Console


class EffectName(StrEnum):
    """What may be reproduced."""

    heads = "heads"
    permuted = "permuted"
    induction = "induction"
    indirect_objects = "indirect_objects"
    greater_than = "greater_than"


GPT2 = (EffectName.indirect_objects, EffectName.greater_than)


def run(
    names: list[EffectName] | None = typer.Argument(
        None, help="Which effects; all of them, if not given."
    ),
    gpt2: Path | None = typer.Option(
        None, help="A folder with the weights of GPT-2 small, which two of the effects need."
    ),
    as_json: bool = JSON,
) -> None:
    """Reproduce published effects on the shipped models and on small ones trained here."""
    chosen = list(names or EffectName)
    missing = [name.value for name in chosen if name in GPT2 and gpt2 is None]
    if missing:
        line = f"{' and '.join(missing)}: left out: they need GPT-2: write --gpt2 FOLDER"
        typer.echo(line, err=True)
    from glassformer.interpret.reproduce import reproduce

    model = None if gpt2 is None else open_model(str(gpt2), "cpu")
    effects = reproduce([name.value for name in chosen], model)
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
