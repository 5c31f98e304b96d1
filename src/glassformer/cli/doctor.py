"""`glassformer doctor`: what is installed, on which device, with which kernels."""

from __future__ import annotations

import json

import typer
from rich.table import Table

from glassformer.cli.console import Console


def run(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Show versions, device and the attention kernels in use."""
    from glassformer.environment import describe

    sections = describe()
    if as_json:
        typer.echo(json.dumps(sections, indent=2))
        return
    console = Console()
    for title, rows in sections.items():
        table = Table(title=title, title_justify="left", show_header=False, box=None)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, value)
        console.print(table, end="\n\n")
