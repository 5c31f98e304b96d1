"""`glassformer params`: the lecture's parameter table, for a preset or a model."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.errors import ConfigError
from glassformer.pretrained import named

if TYPE_CHECKING:
    from glassformer.config import ModelConfig
    from glassformer.presets import Preset
    from glassformer.sizes import Part, Sizes

FP32, BF16 = 4, 2  # bytes a number
ADAMW = 4 * FP32  # weight, gradient and two moments; activations come on top


def run(
    name: str = typer.Argument(
        help="A preset (see: glassformer presets), a model folder, a .gguf file or static vectors."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Count a model's parameters: per head, per block, and what they weigh."""
    preset = find(name)
    from glassformer.sizes import measure  # imports torch: not for a wrong name

    try:
        sizes = measure(preset.model, preset.task)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None
    if as_json:
        typer.echo(json.dumps(gather(name, preset, sizes), indent=2))
        return
    console = Console(highlight=False)
    console.print(Text.assemble((name, "bold cyan"), "  ", preset.what), soft_wrap=True)
    console.print(_structure(preset.model), "", sep="\n")
    console.print(_table(sizes, gap=1 if console.width < 90 else 3))
    console.print("", _notes(preset, sizes), sep="\n")


def find(name: str) -> Preset:
    """A preset by its name, else the model of a folder or file; its weights are not looked at."""
    from glassformer.presets import PRESETS, Preset

    if name in PRESETS:
        return PRESETS[name]
    packed, there = name.endswith(".gguf"), os.path.exists(named(name))  # noqa: PTH110
    if not packed and not there:
        near = difflib.get_close_matches(name.lower(), PRESETS)
        hint = "`glassformer presets` lists the presets"
        if near:  # people get beginnings right
            nearest = min(near, key=lambda known: known[0] != name[:1].lower())
            hint = f"did you mean {nearest!r}?"
        raise ConfigError(f"{name}: no preset, no folder and no file: {hint}")
    from glassformer.checkpoint import is_vectors, read_configs

    what = "a GGUF file" if packed else "vectors, one a word" if is_vectors(name) else None
    return Preset(what or "a model folder", *read_configs(name))


def gather(name: str, preset: Preset, sizes: Sizes) -> dict[str, Any]:
    def memory(count: int) -> dict[str, int]:
        return {"fp32_bytes": FP32 * count, "bf16_bytes": BF16 * count}

    parts = []
    for part in sizes.parts:
        row = dataclasses.asdict(part) | {"each": part.single, "count": part.count}
        share = 100 * part.count / sizes.with_head
        parts.append(row | {"share": round(share, 3)} | memory(part.count))
    return {
        "name": name,
        "bare": sizes.bare,
        "with_head": sizes.with_head,
        "per_head": sizes.per_head,
        "per_block": sizes.per_block,
        **memory(sizes.with_head),
        "adamw_bytes": ADAMW * sizes.with_head,
        "parts": parts,
        "config": preset.model.model_dump(),
        "task": preset.task.model_dump(),
    }


def _structure(config: ModelConfig) -> str:
    depths = " + ".join(str(depth) for depth in (config.depth, config.decoder_depth) if depth)
    return (
        f"{config.family}, {depths or 'no'} blocks, width {config.width}, {config.heads} heads, "
        f"{config.vocab_size:,} pieces, {config.position} positions"
    )


def _table(sizes: Sizes, gap: int) -> Table:
    table = Table(box=None, padding=(0, 0, 0, gap), pad_edge=False, header_style="dim")
    table.add_column(no_wrap=True)
    for title in ("shape", "times", "parameters", "%", "fp32 MB", "bf16 MB"):
        table.add_column(title, justify="right", no_wrap=True)
    for (stack, group), parts in sizes.groups().items():
        title = f"{stack} {group}" if stack and len(sizes.per_block) > 1 else group
        title = title[0].upper() + title[1:]
        if group in ("final norm", "pooler") and len(parts) == 1:  # the title says it all
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
    """What the numbers mean, a line each."""
    bare, headed = "without the head", f"for {preset.task.kind}"
    if preset.reference:
        bare, headed = (f"as {name}" for name in preset.reference)
    if preset.task.kind == "features":
        headed = "there is none"
    elif sizes.bare == sizes.with_head:
        headed += " (its words: the token table, once)"
    blocks = (f"{count:,} in the {stack}" for stack, count in sizes.per_block.items())
    between = {
        "one head": f"{sizes.per_head:,}: query, key and value",
        "one block": ", ".join(blocks),
    }
    notes = {
        "shape": "of one: in × out + bias",
        "times": "blocks, or blocks × heads",
        **(between if preset.model.depth else {}),
        "bare": bare,
        "with head": headed,
        "AdamW": f"{ADAMW * sizes.with_head / 1e6:,.1f} MB to train in fp32 (weight, gradient, two "
        f"moments: {ADAMW} bytes a parameter), without activations",
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, note in notes.items():
        table.add_row(Text(name, "cyan"), note)
    return table
