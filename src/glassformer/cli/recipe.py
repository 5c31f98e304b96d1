"""`glassformer recipe fields` and `new`: what can be written in a recipe, and one to begin with."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.text import Text

from glassformer.cli.common import with_paths
from glassformer.cli.console import Console
from glassformer.errors import ConfigError

app = typer.Typer(help="List the fields of a recipe, or write a new one.", no_args_is_help=True)


@app.command()
@with_paths
def fields(
    part: str = typer.Argument("", help="Only fields with this in their name: train, or rate."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the fields of a recipe: meaning, values, default, and which objectives read them."""
    from glassformer.recipe.reference import recipe_fields

    rows = [each for each in recipe_fields() if part.replace("-", "_") in each.name]
    if not rows:
        raise ConfigError(f"{part}: no field has this in its name: leave it out to list all")
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in rows], indent=2))
        return
    screen = Console(highlight=False)
    for each in rows:
        default = f" = {each.default}" if each.default else ""
        readers = f" For {', '.join(each.objectives)}." if each.objectives else ""
        meaning = each.meaning[:1].upper() + each.meaning[1:].rstrip(".") + "."
        title = Text.assemble((each.name, "cyan"), default, (f"  ({each.values})", "dim"))
        screen.print(title)
        screen.print(Text(f"    {meaning}{readers}"))


@app.command()
@with_paths
def new(
    objective: str = typer.Argument(help="What is learnt, such as classification or causal_lm."),
    out: Path | None = typer.Option(None, help="The file to write; stdout if not given."),
) -> None:
    """Write a recipe for an objective, with comments: adapt data.train and train on it."""
    from glassformer.durable import write_whole
    from glassformer.recipe.reference import new_recipe

    text = new_recipe(objective)
    if out is None:
        typer.echo(text, nl=False)
        return
    if out.exists():
        raise ConfigError(f"{out}: exists already: choose another name")
    write_whole(out, text.encode())
    typer.echo(out)
