"""`glassformer presets`: known model sizes."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from glassformer.cli.console import Console


def run(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the known sizes of BERT, GPT, T5 and others."""
    from glassformer.catalog import list_presets

    presets = list_presets()
    if as_json:
        typer.echo(json.dumps(presets, indent=2))
        return
    console = Console(highlight=False)
    gap = 1 if console.width < 90 else 3
    table = Table(box=None, padding=(0, 0, 0, gap), pad_edge=False, header_style="dim")
    table.add_column(no_wrap=True)
    table.add_column("what", no_wrap=True)
    for title in ("depth", "width", "heads", "tokens", "params"):
        table.add_column(title, justify="right", no_wrap=True)
    for family in ("encoder", "decoder", "seq2seq"):
        table.add_row(family, style="bold")
        for preset in presets:
            if preset["family"] == family:
                table.add_row(
                    Text(preset["name"], "cyan"), preset["what"], _depth(preset),
                    f"{preset['width']}", f"{preset['heads']}", f"{preset['vocab_size']:,}",
                    f"{preset['bare'] / 1e6:.1f}M",
                )  # fmt: skip
    console.print(table)
    console.print("\n`glassformer params NAME` counts its parts. Parameters are without the head.")


def _depth(preset: dict[str, Any]) -> str:
    both = (preset["depth"], preset["decoder_depth"])
    return "+".join(str(depth) for depth in both if depth is not None)
