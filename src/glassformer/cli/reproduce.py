"""`glassformer reproduce`: published effects, with the paper's figure beside ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum

import typer

from glassformer.cli.common import JSON, listing
from glassformer.cli.console import Console


class EffectName(StrEnum):
    """What may be reproduced."""

    heads = "heads"
    permuted = "permuted"
    induction = "induction"


def run(
    names: list[EffectName] | None = typer.Argument(
        None, help="heads, permuted or induction; all of them, if not given."
    ),
    as_json: bool = JSON,
) -> None:
    """Reproduce published effects on the shipped models and on small ones trained here."""
    from glassformer.interpret.reproduce import reproduce

    effects = reproduce([name.value for name in names or EffectName])
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
