"""`glassformer params`: the lecture's parameter table, for a preset or a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from glassformer.catalog import ADAMW, BF16, FP32, count_parameters, find
from glassformer.cli.console import Console
from glassformer.errors import ConfigError, counted

if TYPE_CHECKING:
    from glassformer.config import ModelConfig
    from glassformer.presets import Preset
    from glassformer.sizes import Part, Sizes


def run(
    name: str = typer.Argument(
        help="A preset (see: glassformer presets), a model folder, a .gguf file or static vectors."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Count a model's parameters, per head and per block, and their memory."""
    preset = find(name)
    if as_json:
        typer.echo(json.dumps(count_parameters(name), indent=2))
        return
    from glassformer.sizes import measure  # imports torch: not for a wrong name

    try:
        sizes = measure(preset.model, preset.task)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    console = Console(highlight=False)
    console.print(Text.assemble((name, "bold cyan"), "  ", preset.what), soft_wrap=True)
    console.print(_structure(preset.model), "", sep="\n")
    console.print(_table(sizes, gap=1 if console.width < 90 else 3))
    console.print("", _notes(preset, sizes), sep="\n")


def _structure(config: ModelConfig) -> str:
    own = config.output_stack
    depths = " + ".join(str(depth) for depth in (config.depth, config.decoder_depth) if depth)
    width = f"{config.width}" if own.width == config.width else f"{config.width} + {own.width}"
    heads = counted(own.heads, "heads")
    return (
        f"{config.family}, {depths or 'no'} {'block' if depths == '1' else 'blocks'}, "
        f"width {width}, {heads if own.heads == config.heads else f'{config.heads} + {heads}'}, "
        f"{config.vocab_size:,} tokens, {config.positions} positions"
    )


def _table(sizes: Sizes, gap: int) -> Table:
    table = Table(box=None, padding=(0, 0, 0, gap), pad_edge=False, header_style="dim")
    table.add_column(no_wrap=True)
    for title in ("shape", "times", "parameters", "%", "fp32 MB", "bf16 MB"):
        table.add_column(title, justify="right", no_wrap=True)
    for (stack, group), parts in sizes.groups().items():
        title = f"{stack} {group}" if stack and len(sizes.per_block) > 1 else group
        title = title[0].upper() + title[1:]
        if group in ("final norm", "pooler") and len(parts) == 1:  # the title is enough
            table.add_row(Text(title, "bold"), *_one(parts[0]), *_all(parts[0].count, sizes))
            continue
        count = sum(part.count for part in parts)
        table.add_row(title, "", "", *_all(count, sizes), style="bold")
        for part in parts:
            table.add_row(f"  {part.name}", *_one(part), *_all(part.count, sizes))
    table.add_row()
    table.add_row("Bare", "", "", *_all(sizes.bare, sizes))
    table.add_row("With head", "", "", *_all(sizes.with_head, sizes), style="bold")
    return table


def _one(part: Part) -> tuple[str, str]:
    shape = "×".join(map(str, part.shape)) + (f" + {part.bias}" if part.bias else "")
    times = f"{part.blocks}×{part.heads}" if part.per == "head" else f"{part.blocks}"
    return shape, times


def _all(count: int, sizes: Sizes) -> list[str]:
    numbers = (100 * count / sizes.with_head, FP32 * count / 1e6, BF16 * count / 1e6)
    return [f"{count:,}", *(f"{n:,.1f}" if n >= 0.05 else "<0.1" for n in numbers)]


def _notes(preset: Preset, sizes: Sizes) -> Table:
    """Explanations of the numbers, a line each."""
    bare, headed = "without the head", f"for {preset.task.kind}"
    if preset.reference:
        bare, headed = (f"as {name}" for name in preset.reference)
    if preset.task.kind == "features":
        headed = "there is no head"
    elif sizes.bare == sizes.with_head:
        headed += " (its output matrix is the token embedding)"
    blocks = (f"{count:,} in the {stack}" for stack, count in sizes.per_block.items())
    between = {
        "one head": f"{sizes.per_head:,}: query, key and value",
        "one block": ", ".join(blocks),
    }
    notes = {
        "shape": "of one matrix: in × out + bias",
        "times": "blocks, or blocks × heads",
        **(between if preset.model.depth else {}),
        "bare": bare,
        "with head": headed,
        "AdamW": f"{ADAMW * sizes.with_head / 1e6:,.1f} MB to train in fp32 (weight, gradient, two "
        f"moments: {ADAMW} bytes per parameter), without activations",
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, note in notes.items():
        table.add_row(Text(name, "cyan"), note)
    return table
