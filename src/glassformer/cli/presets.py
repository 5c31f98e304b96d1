"""`glassformer presets`: the models that have a name."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def run(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the known sizes of BERT, GPT, T5 and their kin."""
    facts = gather()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    console = Console(highlight=False)
    gap = 1 if console.width < 90 else 3
    table = Table(box=None, padding=(0, 0, 0, gap), pad_edge=False, header_style="dim")
    table.add_column(no_wrap=True)
    table.add_column("what", no_wrap=True)
    for title in ("depth", "width", "heads", "pieces", "params"):
        table.add_column(title, justify="right", no_wrap=True)
    for family in ("encoder", "decoder", "seq2seq"):
        table.add_row(family, style="bold")
        for fact in facts:
            if fact["family"] == family:
                table.add_row(
                    Text(fact["name"], "cyan"), fact["what"], _depth(fact), f"{fact['width']}",
                    f"{fact['heads']}", f"{fact['vocab_size']:,}", f"{fact['bare'] / 1e6:.1f}M",
                )  # fmt: skip
    console.print(table)
    console.print("\n`glassformer params NAME` opens one up. Parameters are without the head.")


def gather() -> list[dict[str, Any]]:
    from glassformer.presets import PRESETS
    from glassformer.sizes import measure

    facts = []
    for name, preset in PRESETS.items():
        fields = ("family", "depth", "decoder_depth", "width", "heads", "vocab_size")
        sizes = measure(preset.model, preset.task)
        facts.append(
            {"name": name, "what": preset.what}
            | {field: getattr(preset.model, field) for field in fields}
            | {"bare": sizes.bare, "with_head": sizes.with_head}
        )
    return facts


def _depth(fact: dict[str, Any]) -> str:
    both = (fact["depth"], fact["decoder_depth"])
    return "+".join(str(depth) for depth in both if depth is not None)
