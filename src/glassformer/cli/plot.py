"""`glassformer plot`: the loss curves of one or more runs, in the terminal or as an image file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from glassformer.cli.console import Console
from glassformer.errors import ConfigError, InputError, check_installed
from glassformer.train.curves import Curve, Line, read

SUFFIXES = (".png", ".svg")
COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
POINTS = "●▲■◆▼★"
HEIGHT, AXIS = 16, 8  # lines of the chart, and columns left of it


def run(
    runs: list[Path] = typer.Argument(help="Folders of runs, finished or not."),
    out: Path | None = typer.Option(None, help="Write an image: a .png or .svg file."),
) -> None:
    """Draw loss curves: training as a line (smoothed), validation as points."""
    curves = [read(folder) for folder in runs]
    if out is None:
        draw(curves, Console(highlight=False))
    else:
        paint(curves, out)
        typer.echo(str(out))


class Canvas:
    """Braille dots, eight to a character, and markers on top of them."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.dots = [[0] * width for _ in range(height)]
        self.marks: dict[tuple[int, int], str] = {}
        self.colours: dict[tuple[int, int], str] = {}

    def dot(self, x: float, y: float, colour: str) -> None:
        """Set a dot; x and y are from 0 to 1, y upwards."""
        column, row = round(x * (2 * self.width - 1)), round((1 - y) * (4 * self.height - 1))
        bits = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
        self.dots[row // 4][column // 2] |= bits[row % 4][column % 2]
        self.colours.setdefault((row // 4, column // 2), colour)

    def mark(self, x: float, y: float, sign: str, colour: str) -> None:
        place = round((1 - y) * (self.height - 1)), round(x * (self.width - 1))
        self.marks[place], self.colours[place] = sign, colour

    def lines(self) -> Iterator[Text]:
        for i, row in enumerate(self.dots):
            line = Text()
            for j, bits in enumerate(row):
                sign = self.marks.get((i, j)) or (chr(0x2800 + bits) if bits else " ")
                line.append(sign, self.colours.get((i, j), ""))
            yield line


def draw(curves: list[Curve], console: Console) -> None:
    points = [point for curve in curves for point in curve.train + curve.valid]
    last, low = max(step for step, _ in points), min(loss for _, loss in points)
    high = max(loss for _, loss in points)
    canvas = Canvas(min(console.width, 120) - AXIS - 1, HEIGHT)
    tall = (high - low) or 1.0
    styles = [(COLOURS[i % len(COLOURS)], POINTS[i % len(POINTS)]) for i in range(len(curves))]
    for curve, (colour, sign) in zip(curves, styles, strict=True):
        for step, loss in _dense(curve.train, 2 * canvas.width):
            canvas.dot(step / last, (loss - low) / tall, colour)
        for step, loss in curve.valid:
            canvas.mark(step / last, (loss - low) / tall, sign, colour)
    for i, line in enumerate(canvas.lines()):
        label = f"{high - i / (HEIGHT - 1) * tall:.3f}" if i % 3 == 0 else ""
        console.print(Text.assemble((f"{label:>{AXIS - 1}} ", "dim"), line), no_wrap=True)
    steps = f"{0:<{canvas.width // 2}}{f'{last:,.0f} steps':>{canvas.width - canvas.width // 2}}"
    console.print(Text(" " * AXIS + steps, "dim"), no_wrap=True)
    for curve, (colour, sign) in zip(curves, styles, strict=True):
        console.print(_legend(curve, sign, colour), soft_wrap=True)


def _dense(line: Line, columns: int) -> Iterator[tuple[float, float]]:
    """The line with interpolated points, so that no column of dots stays empty."""
    for (step, loss), (next_step, next_loss) in pairwise(line):
        parts = max(1, min(columns, 4 * columns // len(line)))
        for part in range(parts):
            share = part / parts
            yield step + share * (next_step - step), loss + share * (next_loss - loss)
    yield line[-1]


def _legend(curve: Curve, sign: str, colour: str) -> Text:
    summary = f"  step {curve.train[-1][0]:,.0f}, training {curve.train[-1][1]:.4f}"
    if curve.valid:
        step, best = min(curve.valid, key=lambda point: point[1])
        summary += f", validation {sign} {curve.valid[-1][1]:.4f} (best {best:.4f} at {step:,.0f})"
    return Text.assemble(("⠤⠤ ", colour), (curve.name, "bold"), summary)


def paint(curves: list[Curve], out: Path) -> None:
    check_picture(out)
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    for i, curve in enumerate(curves):
        axes.plot(*zip(*curve.train, strict=True), color=f"C{i}", label=curve.name)
        if curve.valid:
            label = f"{curve.name}, validation"
            axes.plot(*zip(*curve.valid, strict=True), "o", color=f"C{i}", label=label)
    axes.set(xlabel="step", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, out)


def check_picture(out: Path) -> None:
    """ConfigError, before any work, if the image cannot be drawn."""
    if out.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{out}: write a name that ends in {' or '.join(SUFFIXES)}")
    check_installed(f"{out}: an image", "plot", "matplotlib")


def new_figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, out: Path) -> None:
    try:
        figure.savefig(out, dpi=150)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None
