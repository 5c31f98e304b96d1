"""`glassformer evaluate`: the metrics of `gf.evaluate`, printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from glassformer.cli.common import grid, safe
from glassformer.cli.console import Console
from glassformer.cli.display import Display
from glassformer.cli.training import DATA, JSON, RECIPE, fields_of


def run(
    context: typer.Context,
    model: str = typer.Argument(help="The model folder."),
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    translate: int | None = typer.Option(
        None, min=0, help="How many sentences to translate for BLEU, chrF and TER; default: all."
    ),
    num_beams: int = typer.Option(4, min=1, help="Beams of the search."),
    length_penalty: float = typer.Option(1.0, help="Above 0 favours long translations."),
    per_document: bool = typer.Option(False, help="Also the metrics of each document."),
    as_json: bool = JSON,
) -> None:
    """Measure a model on the validation data of a recipe: loss, perplexity, accuracy; BLEU, chrF
    and TER of a translation model. Any field of the recipe can be set: --data.valid test.txt
    """
    changes = fields_of(context.args)
    from glassformer.train.evaluation import evaluate

    with Display() as display:
        metrics = evaluate(
            model, recipe, data=data, changes=changes, sentences=translate, num_beams=num_beams,
            length_penalty=length_penalty, per_document=per_document, report=display.report,
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"model": model, "recipe": str(recipe), **metrics}))
    else:
        _show(metrics)


def _show(metrics: dict[str, Any]) -> None:
    console = Console(highlight=False)
    documents, signatures = metrics.pop("documents", []), metrics.pop("signatures", {})
    rows = {name.replace("_", " "): f"{value:,.4f}" for name, value in metrics.items()}
    rows["answers"] = f"{metrics['answers']:,.0f}"
    for name, signature in signatures.items():
        rows[name] = f"{metrics[name]:.2f}  {signature}"
    console.print(grid(rows))
    if not documents:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("bytes", "answers", "perplexity", "bits per byte", "begins"):
        table.add_column(name, justify="left" if name == "begins" else "right", no_wrap=True)
    for document in documents:
        table.add_row(
            f"{document['bytes']:,}", f"{document['answers']:,}", f"{document['perplexity']:,.2f}",
            f"{document['bits_per_byte']:.4f}", safe(document["begins"]),
        )  # fmt: skip
    console.print(table)
