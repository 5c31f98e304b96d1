"""`glassformer reproduce`: published effects, with the paper's figure beside ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.common import DEVICE, JSON, listing, open_model, with_paths
from glassformer.cli.console import Console
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

NAMES = (
    "heads", "permuted", "induction", "grokking", "alignments", "indirect_objects", "greater_than",
)  # fmt: skip
GPT2 = NAMES[5:]
WHICH = f"Which effects: {', '.join(NAMES)}."


@with_paths
def run(
    names: list[str] | None = typer.Argument(None, help=WHICH),
    text: Path | None = typer.Option(
        None, help="A long text, of a megabyte or more: induction in text, for a GPU."
    ),
    full: bool = typer.Option(
        False, "--full", help="Grokking of addition modulo 113, for a GPU; otherwise modulo 41."
    ),
    translator: str | None = typer.Option(None, help="A translation model, for alignments."),
    alignments: Path | None = typer.Option(
        None, help="Its hand alignments, STEM: STEM.src-tgt has `source ||| target`, STEM.gold "
        "has links.",
    ),
    gpt2: Path | None = typer.Option(
        None, help="A folder with the weights of GPT-2 small, which two of the effects need."
    ),
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """Reproduce published effects on the shipped models and on small ones trained here."""
    chosen = names or list(NAMES)
    missing = [name for name in chosen if name in GPT2 and gpt2 is None]
    if missing:
        line = f"{' and '.join(missing)}: left out: they need GPT-2: write --gpt2 FOLDER"
        typer.echo(line, err=True)
    if (translator is None) != (alignments is None):
        raise ConfigError("--translator and --alignments: write both, or neither")
    if "alignments" in chosen and translator is None:
        typer.echo(
            "alignments: left out: they need a translation model and hand alignments: write "
            "--translator MODEL --alignments STEM", err=True,
        )  # fmt: skip
    from glassformer.data.readers.alignments import read_gold
    from glassformer.distributed import resolve_device
    from glassformer.interpret.reproduce import reproduce

    effects = reproduce(
        chosen,
        gpt2=None if gpt2 is None else open_model(str(gpt2), device),
        translator=None if translator is None else open_model(translator, device),
        gold=[] if alignments is None else list(read_gold(alignments)),
        tokens=None if text is None else _tokens(text),
        full=full,
        device=resolve_device(device, "--device"),
    )
    if as_json:
        for effect in effects:
            typer.echo(json.dumps(asdict(effect), ensure_ascii=False))
        return
    rows = [
        (each.effect, each.paper, each.published, each.ours, "yes" if each.holds else "no")
        for each in effects
    ]
    titles = ("effect", "paper", "published", "ours", "same sign and order")
    Console(highlight=False).print(listing(titles, rows))


def _tokens(file: Path) -> Tensor:
    """The lines of a file as the ids of gf-decoder."""
    import torch

    from glassformer.data.readers.files import read_lines
    from glassformer.inference import check_tokenizer
    from glassformer.loaded import load

    tokenizer = check_tokenizer(load("gf-decoder").tokenizer)
    return torch.cat([torch.tensor(tokenizer.encode(line).ids) for _, line in read_lines(file)])
