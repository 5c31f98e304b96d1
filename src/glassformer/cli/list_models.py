"""`glassformer list`: the models that come with the package, and your own."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import safe, size
from glassformer.cli.console import Console


def run(
    folders: list[Path] | None = typer.Argument(
        None, help="Folders with models of your own; runs/, if not given."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the models that come with the package, and your own."""
    from glassformer.catalog import RUNS, list_models

    models = list_models(folders or ())
    if as_json:
        typer.echo(json.dumps(models, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not models:
        console.print(f"no model in {RUNS}: train one, or give another folder")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("name", "family", "params", "size", "output"):
        right = title in ("params", "size")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for model in models:
        name = Text(safe(model["name"]), "bold cyan" if model["shipped"] else "cyan")
        if "problem" in model:
            table.add_row(name, "", "", "", Text(safe(model["problem"]), "red"))
        else:
            count = f"{model['parameters'] / 1e6:.1f}M"
            table.add_row(name, model["family"], count, size(model["bytes"]), model["gives"])
    console.print(table)
