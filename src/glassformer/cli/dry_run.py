"""`--dry-run` of `pretrain` and `finetune`: the facts of `gf.dry_run`, printed."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from glassformer.cli.common import grid, safe, size, visible
from glassformer.cli.console import Console
from glassformer.errors import counted
from glassformer.progress import duration

CHARACTERS = 240  # of each text
SIZES = {"texts": "texts", "tokens": "tokens", "answers": "labels"}  # of a micro-batch


def show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(facts, Console(highlight=False))


def _print(facts: dict[str, Any], console: Console) -> None:
    origin = f"from {facts['init_from']}" if facts["init_from"] else "from random weights"
    title = Text.assemble((facts["name"], "bold cyan"), f"  {facts['objective']}, {origin}")
    console.print(title, soft_wrap=True)
    console.print(grid(_rows(facts)))
    batch = facts["first_batch"]
    sizes = [counted(batch[name], things) for name, things in SIZES.items()]
    summary = f"{', '.join(sizes)} (input←label)"
    console.print(Text.assemble(("\nThe first micro-batch: ", "bold"), summary), soft_wrap=True)
    table = Table.grid(padding=(0, 0, 0, 2))
    for number, text in enumerate(batch["shown"], 1):
        lines = [_shown(text)]
        if "source" in text:
            lines.insert(0, _line(text["source"], [None] * len(text["source"])))
        table.add_row(Text(f"{number}", "cyan"), Text("\n").join(lines))
    console.print(table)
    console.print("\nA few steps were timed; no model was written.", style="dim")


def _rows(facts: dict[str, Any]) -> dict[str, str]:
    config, memory = facts["config"], dict(facts["memory_bytes"])
    depths = " + ".join(str(d) for d in (config["depth"], config["decoder_depth"]) if d)
    total = memory.pop("total")
    parts = " + ".join(f"{name} {size(count)}" for name, count in memory.items())
    step = f"{facts['micro_batches']:,} × {facts['micro_batch_tokens']:,} tokens"
    step += " on each side" if facts["sides"] == 2 else ""
    rows = {
        "model": f"{config['family']}, {depths} {'block' if depths == '1' else 'blocks'}, "
        f"width {config['width']}, {counted(config['heads'], 'heads')}, "
        f"{config['vocab_size']:,} tokens",
        "parameters": f"{facts['parameters']['with_head']:,} with the head, "
        f"{facts['parameters']['bare']:,} without",
        "memory": f"about {size(total)}: {parts} (activations are estimated)",
    }
    for name, part in facts["data"].items():
        rows[name] = ", ".join(counted(part[things], things) for things in ("documents", "tokens"))
    rows |= {
        "a step": f"{step}, {facts['tokens_per_step']:,} of them real "
        f"({facts['filler_fraction']:.1%} of a micro-batch is filler)",
        "steps": f"{facts['steps']:,}: {facts['epochs']:.2f} epochs of "
        f"{facts['micro_batches_per_epoch']:,} micro-batches",
    }
    if facts["labels"]:
        rows["labels"] = ", ".join(f"{n:,} {safe(label)}" for label, n in facts["labels"].items())
    if facts["time"] is not None:
        rows["time"] = _time(facts)
    skipped = [counted(count, reason) for reason, count in facts["skipped"].items()]
    rows["note"] = "; ".join(skipped) or "nothing"
    return rows | {"folder": facts["out"]}


def _time(facts: dict[str, Any]) -> str:
    time = facts["time"]
    steps = counted(facts["steps"], "steps")
    line = f"about {duration(time['total'])}: {steps} of {time['step']:.2g} s"
    if time["evaluations"]:
        line += f", {counted(time['evaluations'], 'evaluations')} of {time['evaluation']:.2g} s"
    return line + (" (without train.compile)" if facts["compile"] else "")


def _shown(text: dict[str, Any]) -> Text:
    """cat←dog: the model reads cat and has to predict dog."""
    # Every token has a label where each predicts the next one.
    ahead = all(answer is not None for answer in text["answers"])
    line = _line(text["tokens"], [None if ahead else a for a in text["answers"]])
    if ahead:
        line.append(f" → {visible(text['answers'][-1])}", "bold")
    if "label" in text:
        line.append(f"  → {safe(text['label'])}", "bold green")
    if "follows" in text:
        line.append("  (it follows)" if text["follows"] else "  (it does not follow)", "dim")
    return line


def _line(tokens: list[str], answers: list[str | None]) -> Text:
    line = Text()
    spaces = any(" " in token for token in tokens)
    between = "|" if spaces else " "
    if all(len(token) == 1 for token in tokens):  # characters
        between = ""
    for i, (token, answer) in enumerate(zip(tokens, answers, strict=True)):
        if len(line) > CHARACTERS:
            line.append(f" … ({len(tokens):,} tokens)", "dim")
            break
        line.append(between if i else "", "dim")
        line.append(safe(token), "" if answer is None else "bold")
        if answer is not None:
            line.append(f"←{safe(answer)}", "bold green")
    return line
