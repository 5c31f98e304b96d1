"""`glassformer evaluate`: the metrics of `gf.evaluate`, printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from glassformer.cli.common import ADAPTER, grid, listing, safe
from glassformer.cli.console import Console
from glassformer.cli.display import Display
from glassformer.cli.plot import check_picture, new_figure, save
from glassformer.cli.training import DATA, JSON, RECIPE, fields_of
from glassformer.errors import ConfigError

MOST_CONFUSED = 12  # classes whose confusion matrix fits a terminal


def run(
    context: typer.Context,
    model: str = typer.Argument(help="The model folder."),
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    translate: int | None = typer.Option(
        None, min=0, help="How many sentences to translate for BLEU, chrF and TER; default: all."
    ),
    num_beams: int = typer.Option(4, min=1, help="Beams of the search."),
    length_penalty: float = typer.Option(1.0, help="Above 0 favours long translations."),
    per_document: bool = typer.Option(False, help="Also the metrics of each document."),
    figure: Path | None = typer.Option(
        None, help="Draw the confusion matrix of labelled data: a .png or .svg file."
    ),
    adapter: Path | None = ADAPTER,
    as_json: bool = JSON,
) -> None:
    """Measure a model on the validation data of a recipe: loss, perplexity, accuracy; precision,
    recall and F1 of each class, and which classes are confused; BLEU, chrF and TER of a translation
    model. Any field of the recipe can be set: --data.valid test.txt
    """
    changes = fields_of(context.args)
    if figure is not None:
        check_picture(figure)
    from glassformer.train.evaluation import evaluate

    with Display() as display:
        metrics = evaluate(
            model, recipe, data=data, changes=changes, sentences=translate, num_beams=num_beams,
            length_penalty=length_penalty, per_document=per_document, report=display.report,
            adapter=adapter,
        )  # fmt: skip
    if figure is not None:
        if "confusion" not in metrics:
            raise ConfigError(f"--figure {figure}: this data has no classes: leave it out")
        _paint(list(metrics["classes"]), metrics["confusion"], figure)
    if as_json:
        typer.echo(json.dumps({"model": model, "recipe": str(recipe), **metrics}))
    else:
        _show(metrics)


def _show(metrics: dict[str, Any]) -> None:
    console = Console(highlight=False)
    documents, signatures = metrics.pop("documents", []), metrics.pop("signatures", {})
    classes, confusion = metrics.pop("classes", {}), metrics.pop("confusion", None)
    rows = {name.replace("_", " "): f"{value:,.4f}" for name, value in metrics.items()}
    rows["answers"] = f"{metrics['answers']:,.0f}"
    for name, signature in signatures.items():
        rows[name] = f"{metrics[name]:.2f}  {signature}"
    console.print(grid(rows))
    if classes:
        console.print("", _classes(classes), sep="\n")
    if confusion is not None and len(classes) <= MOST_CONFUSED:
        console.print("", _confusion(list(classes), confusion), sep="\n")
    elif confusion is not None:
        console.print(f"\n{len(classes)} classes: --json has their confusion matrix, --figure FILE "
                      "draws it", soft_wrap=True)  # fmt: skip
    if not documents:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("bytes", "answers", "perplexity", "bits per byte", "begins"):
        table.add_column(name, justify="left" if name == "begins" else "right", no_wrap=True)
    for document in documents:
        table.add_row(
            f"{document['bytes']:,}", f"{document['answers']:,}", f"{document['perplexity']:,.2f}",
            f"{document['bits_per_byte']:.4f}", safe(document["begins"]),
        )  # fmt: skip
    console.print(table)


def _classes(classes: dict[str, dict[str, float]]) -> Table:
    rows: list[tuple[str | float, ...]] = [
        (label, each["precision"], each["recall"], each["f1"], f"{each['support']:,}")
        for label, each in classes.items()
    ]
    return listing(("label", "precision", "recall", "f1", "examples"), rows)


def _confusion(labels: list[str], counts: list[list[int]]) -> Table:
    rows = [(label, *(f"{n:,}" for n in row)) for label, row in zip(labels, counts, strict=True)]
    return listing(("true ↓  predicted →", *map(safe, labels)), rows)


def _paint(labels: list[str], counts: list[list[int]], out: Path) -> None:
    side = 2 + 0.4 * len(labels)
    figure = new_figure(side + 1, side)
    axes = figure.subplots()
    shares = [[n / max(1, sum(row)) for n in row] for row in counts]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            colour = "white" if shares[i][j] > 0.5 else "black"
            axes.text(j, i, f"{count:,}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(labels)), labels, rotation=90)
    axes.set_yticks(range(len(labels)), labels)
    axes.set(xlabel="predicted", ylabel="true")
    save(figure, out)
