"""The lectures' examples on the models that come with the package, for `glassformer demo`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from glassformer.cli.common import listing, prose, safe, warnings_on_stderr
from glassformer.cli.console import Console
from glassformer.pretrained import named

if TYPE_CHECKING:
    from glassformer.loaded import Model

TROUT = "Dang! I'm out fishing and a huge trout just [MASK] my line!"
PAIRS = (
    ("Paul went shopping.", "He bought a new shirt."),
    ("Ramona made coffee.", "Vanilla ice cream cones for sale."),
)
BANKS = (
    "I sat by the river bank.",
    "I deposited money in the bank.",
    "She took her savings out of the bank.",
)
PROMPT = "The old house stood at the end of the lane, and"
CAT = "The cat sat on the mat."


def run(console: Console, seed: int) -> None:
    """Show the examples of every model that is installed."""
    for name, parts in PARTS.items():
        if not named(name).exists():
            continue
        from glassformer.loaded import load

        model = load(name)
        for title, show, page in parts:
            console.print(f"\n[bold]{title}[/bold] [dim]{name}[/dim]")
            show(console, model, seed)
            console.print(f"[dim]in the studio: glassformer studio {name}, page {page}[/dim]")


def _trout(console: Console, model: Model, seed: int) -> None:
    console.print(TROUT, markup=False)
    (blank,) = model.fill(TROUT)
    rows = [(word.text, word.probability) for word in blank.candidates]
    console.print(listing(("word", "probability"), rows))
    if rows[0][0] != "broke":
        console.print(
            "the lecture's word is broke: a model this small has read little about fishing"
        )


def _follows(console: Console, model: Model, seed: int) -> None:
    rows = [(f"{a} {b}", model.follows(a, b)) for a, b in PAIRS]
    console.print(listing(("two sentences", "the second follows"), rows))


def _banks(console: Console, model: Model, seed: int) -> None:
    import torch

    river, money, savings = (model.word(sentence, "bank") for sentence in BANKS)
    cosines = model.similarity(money[None], torch.stack([river, savings]))[0].tolist()
    rows = [
        (f"{BANKS[1]} {other}", cosine) for other, cosine in zip(BANKS[::2], cosines, strict=True)
    ]
    console.print(listing(('"bank" in both: the same word, not the same vector', "cosine"), rows))


def _continues(console: Console, model: Model, seed: int) -> None:
    pieces = model.stream(
        PROMPT, max_new_tokens=90, do_sample=True, temperature=0.8, top_p=0.95, seed=seed
    )
    console.print(prose(PROMPT + "".join(pieces), "\n"), markup=False)


def _translates(console: Console, model: Model, seed: int) -> None:
    with warnings_on_stderr():
        (translation,) = model.translate(CAT, align=True)
    console.print(f"{CAT}  →  {prose(translation.text)}", markup=False)
    alignment = translation.alignment
    if alignment is None:
        return
    table = Table(
        title="cross attention of each word",
        title_justify="left",
        box=None,
        padding=(0, 1),
    )
    table.add_column("", style="cyan", no_wrap=True, max_width=20)
    for word in alignment.source:
        table.add_column(safe(word), justify="right", no_wrap=True)
    for word, row in zip(alignment.target, alignment.weights.tolist(), strict=True):
        table.add_row(safe(word), *cells(row))
    console.print(table)


def cells(row: list[float]) -> Iterator[Text]:
    """Numbers from 0 to 1; large ones are highlighted."""
    for value in row:
        yield Text(f"{value:.2f}", "bold green" if value >= 0.5 else "" if value >= 0.05 else "dim")


Part = tuple[str, Callable[[Console, "Model", int], None], str]  # title, function, studio page
PARTS: dict[str, tuple[Part, ...]] = {
    "gf-encoder": (
        ("A hidden word", _trout, "Map"),
        ("Does it follow?", _follows, "Map"),
        ("One word, two meanings", _banks, "Layers"),
    ),
    "gf-decoder": (("The next word, again and again", _continues, "Generate"),),
    "gf-en-ru": (("English to Russian", _translates, "Translate"),),
}
