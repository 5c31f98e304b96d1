"""`glassformer list`: the models that come with the package, and those that were trained here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import safe, size
from glassformer.errors import GlassformerError, InputError
from glassformer.pretrained import shipped

RUNS = Path("runs")


def run(
    folders: list[Path] | None = typer.Argument(
        None, help="Where to look for models of your own; runs, if not given."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the models at hand: those that come with the package, and your own."""
    for folder in folders or ():
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: write one that holds models")
        if not any(_models(folder)):
            raise InputError(f"{folder}: there is no model in it: write a folder that holds models")
    own = [found for folder in folders or [RUNS] for found in _models(folder)]
    facts: list[dict[str, Any]] = [
        {"name": name, "shipped": True} | _facts(path) for name, path in shipped().items()
    ]
    facts += [{"name": str(path), "shipped": False} | _facts(path) for path in own]
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not facts:
        console.print(f"no model here: train one, or look elsewhere than in {RUNS}")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("name", "family", "params", "size", "what it gives"):
        right = title in ("params", "size")
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for each in facts:
        name = Text(safe(each["name"]), "bold cyan" if each["shipped"] else "cyan")
        if "problem" in each:
            table.add_row(name, "", "", "", Text(safe(each["problem"]), "red"))
        else:
            count = f"{each['parameters'] / 1e6:.1f}M"
            table.add_row(name, each["family"], count, size(each["bytes"]), each["gives"])
    console.print(table)


def _models(folder: Path) -> Iterator[Path]:
    """The folder itself if it is a model, else what is in it: models, and results of runs."""
    if (folder / "config.json").is_file():
        yield folder
    elif folder.is_dir():
        for each in sorted(folder.iterdir()):
            yield from (
                found for found in (each, each / "model") if (found / "config.json").is_file()
            )


def _facts(folder: Path) -> dict[str, Any]:
    from glassformer.checkpoint import read_configs
    from glassformer.checkpoint.card import OUTPUTS
    from glassformer.sizes import measure

    try:
        config, task = read_configs(folder)
        count = measure(config, task).with_head
    except GlassformerError as error:
        return {"problem": str(error)}
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {
        "family": config.family, "parameters": count, "bytes": weights, "gives": OUTPUTS[task.kind]
    }  # fmt: skip
