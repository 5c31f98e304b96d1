"""`glassformer demo`: trains the two toys of the lecture, then shows its examples on the models
that come with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.columns import Columns
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from glassformer.cli import tour
from glassformer.cli.console import Console

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.toys import OneHead, Toy

STEPS = 400


def run(
    seed: int = typer.Option(4, help="The seed of the random weights."),
) -> None:
    """Train both toys of the first lecture and show the attention of their head; then run the
    lectures' examples with the models that come with the package."""
    from glassformer import toys

    with toys.one_thread():
        _demo(Console(), seed)


def _demo(console: Console, seed: int) -> None:
    import torch

    from glassformer import toys

    console.print("[bold]One attention head against a table of word pairs[/bold]\n")
    for title, toy in (("First toy", toys.FIRST), ("Second toy", toys.SECOND)):
        torch.manual_seed(seed)
        model = toys.OneHead(toy)
        console.print(f"[bold]{title}[/bold]: " + "  /  ".join(" ".join(t) for t in toy.texts))
        _train(toy, model, Console(stderr=True))
        for text in range(len(toy.texts)):
            _show(console, toy, model, text)
        _cues(console, toy, model)
    console.print(
        'A bigram table predicts the same after every "the"; the head does not: compare the rows '
        'of "the" in both tables.'
    )
    console.print("[dim]in the studio: glassformer studio --toys, page Toy[/dim]")
    tour.run(console, seed)


def _train(toy: Toy, model: OneHead, console: Console) -> None:
    from glassformer import toys

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=STEPS, loss="")
        for loss in toys.train(toy, model, steps=STEPS):
            bar.update(task, advance=1, loss=f"loss {loss:.4f}")


def _show(console: Console, toy: Toy, model: OneHead, text: int) -> None:
    from glassformer import toys

    trace = toys.look(toy, model, text)
    words = list(toy.texts[text])
    probabilities = trace["logits"].softmax(-1)
    known = toy.bigrams()[toy.ids[text]]
    console.print(
        Columns(
            [
                _table("one head: the next word (T×V)", words, list(toy.words), probabilities),
                _table("a bigram table", words, list(toy.words), known),
            ],
            padding=(0, 4),
        )
    )
    weights = trace["attention.weights"][0]
    console.print(_table("attention weights (T×T)", words, words, weights, causal=True))
    console.print()


def _cues(console: Console, toy: Toy, model: OneHead) -> None:
    """Whether this head uses the words before, or the position: measured, not assumed."""
    from glassformer import toys

    measured = toys.cues(toy, model)
    table = Table(title="words or position?", title_justify="left", box=None, padding=(0, 1))
    for column in ("right word", "p", "without positions", "without the words before"):
        table.add_column(column, justify="left" if column == "right word" else "right")
    for cue in measured:
        name = f"{toy.texts[cue.text][cue.place]} → {cue.target}"
        table.add_row(name, *tour.cells([cue.whole, cue.no_positions, cue.no_words]))
    console.print(table)
    console.print(f"{toys.conclusion(measured)}\n")


def _table(
    title: str, rows: list[str], columns: list[str], values: Tensor, *, causal: bool = False
) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    table.add_column("", style="cyan", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for i, (word, row) in enumerate(zip(rows, values.tolist(), strict=True)):
        hidden = (Text("·", "dim") for _ in row[i + 1 :] if causal)
        table.add_row(word, *tour.cells(row[: i + 1] if causal else row), *hidden)
    return table
