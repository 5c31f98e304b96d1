"""Figures of a trace. One hue from light to dark, readable with any colour vision.

Each function returns a matplotlib figure that a notebook shows by itself; nothing is drawn on a
screen, and no setting of matplotlib is changed.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.patches import Rectangle
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d

from glassformer.errors import ConfigError, InputError, printable
from glassformer.glass.alignment import align_tokens
from glassformer.glass.lens import lens
from glassformer.glass.path import word_path
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.stacks import main_stack, sides, weights
from glassformer.glass.tables import one_head, point

COLOURS = "Blues"
UNSEEN = "#f0f0f0"  # keys that a query may not attend to
LINES = ("#0072B2", "#D55E00", "#555555")  # of Okabe and Ito: blue, vermilion, grey
SMALL = 64  # the most rows and columns of a head on the map
NUMBERED = 14  # up to this many tokens, each weight is written into its cell
LABELLED = 64  # up to this many tokens, each has its label
MOST = 16  # tokens of a lens, if not chosen
SUFFIXES = (".png", ".svg", ".pdf")
# Fallbacks for scripts that the default font lacks; fonts that are not installed are skipped.
FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Noto Sans")


class Picture(Figure):
    """A figure that a notebook shows, and that no token can break."""

    def draw(self, renderer: Any) -> None:
        with warnings.catch_warnings():  # a character no font has is drawn as a box
            warnings.filterwarnings("ignore", "Glyph .* missing from")
            super().draw(renderer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Like `savefig`; ConfigError or InputError, in one line, if it fails."""
        path = Path(path)
        if path.suffix.lower() not in SUFFIXES:
            raise ConfigError(f"{path}: write a name that ends in {' or '.join(SUFFIXES)}")
        try:
            self.savefig(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        self.savefig(data, format="png")
        return data.getvalue()


def of_map(trace: RecordedTensors, *, stack: str | None = None) -> Picture:
    """Every head, layers down and heads across; of a long text a cell shows the largest weight."""
    stack = stack or main_stack(trace)
    attention = weights(trace, stack).cpu()
    L, H, T, S = attention.shape
    small = adaptive_max_pool2d(attention, (min(T, SMALL), min(S, SMALL)))
    r, c = small.shape[-2:]
    gap = max(1, max(r, c) // 12)
    board = small.new_full((L * (r + gap) - gap, H * (c + gap) - gap), torch.nan)
    for layer in range(L):
        for head in range(H):
            top, left = layer * (r + gap), head * (c + gap)
            board[top : top + r, left : left + c] = small[layer, head]
    tall, broad = board.shape
    size = min(8.0, 1.6 * H * max(1.0, c / r)) / broad
    figure, axes = _blank(max(3.5, size * broad) + 1.4, max(1.6, size * tall) + 0.9)
    image = axes.imshow(board.numpy(), cmap=COLOURS, norm=PowerNorm(0.5, 0, 1), aspect="equal")
    axes.set_xticks([head * (c + gap) + (c - 1) / 2 for head in range(H)], _count(H))
    axes.set_yticks([layer * (r + gap) + (r - 1) / 2 for layer in range(L)], _count(L))
    axes.set(xlabel="head", ylabel="layer", title=f"{stack}: attention of each head")
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    _bare(axes)
    _scale(figure, image, "weight")
    return figure


def of_head(
    trace: RecordedTensors, *, stack: str | None = None, layer: int = 0, head: int | None = None
) -> Picture:
    """One head's weights with the tokens beside them; `head` None is the mean of its layer."""
    stack = stack or main_stack(trace)
    values, title = one_head(trace, stack, layer, head)
    queries, keys = sides(trace, stack)
    return _matrix(title, values.cpu(), queries, keys, causal=stack == "decoder")


def of_lens(
    trace: RecordedTensors,
    *,
    model: nn.Module,
    inside: bool = False,
    at: Sequence[int] | None = None,
) -> Picture:
    """The logit lens: the best word at each token after each layer, dark where it is likely.

    Args:
        at: the numbers of the tokens to show; the first 16, if not given
    """
    readings = lens(model, trace, top_k=1, inside=inside)
    places = list(range(min(MOST, len(trace.tokens))) if at is None else at)
    probabilities = torch.stack([best.probabilities[places, 0] for best in readings.values()])
    P, T = probabilities.shape
    figure, axes = _blank(max(4.5, 0.95 * T + 1.2) + 1.0, 0.42 * P + 1.4)
    image = axes.imshow(probabilities.numpy(), cmap=COLOURS, vmin=0, vmax=1, aspect="auto")
    for i, best in enumerate(readings.values()):
        for j, place in enumerate(places):
            _write(axes, i, j, _short(best.words[place][0], 9), float(probabilities[i, j]))
    _tokens(axes, [trace.tokens[place] for place in places], [point(name) for name in readings])
    left = len(trace.tokens) - len(places)
    note = f" ({len(places)} of {len(trace.tokens)} tokens)" if left else ""
    axes.set_title(f"best word after each layer{note}", pad=12)
    axes.set_ylabel("after layer")
    axes.set_xticks([j - 0.5 for j in range(1, T)], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, P)], minor=True)
    axes.grid(which="minor", color="white")
    _bare(axes)
    _scale(figure, image, "probability")
    return figure


def of_path(trace: RecordedTensors, *, token: int | str = 0, stack: str | None = None) -> Picture:
    """One word's vector through the layers: how far it turns, and how long it is."""
    word = word_path(trace, token, stack or main_stack(trace))
    figure = _picture(max(6.0, 0.45 * len(word.points) + 3.5), 4.6)
    turn, length = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    steps = range(len(word.points))
    for values, name, colour, mark in (
        (word.to_start, "to the start", LINES[0], "o"),
        (word.to_end, "to the end", LINES[1], "s"),
    ):
        turn.plot(steps, values.tolist(), color=colour, marker=mark, label=name)
    length.plot(steps, word.norm.tolist(), color=LINES[2], marker="D")
    lowest = float(torch.cat([word.to_start, word.to_end]).min())
    turn.set(ylabel="cosine", ylim=(min(0.0, lowest) - 0.05, 1.05))
    turn.set_title(f"“{printable(word.token)}” through the layers", parse_math=False)
    turn.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    length.set(ylabel="length", xlabel="after layer", ylim=(0, 1.15 * float(word.norm.max())))
    length.set_xticks(steps, [point(name) for name in word.points])
    for axes in (turn, length):
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def of_alignment(
    trace: RecordedTensors, *, layers: Sequence[int] | None = None, reading: bool = False
) -> Picture:
    """Which source token each target token came from; a frame marks the largest of each row."""
    alignment = align_tokens(trace, layers=layers, reading=reading)
    title = "token alignment"
    figure = _matrix(title, alignment.weights, alignment.target, alignment.source)
    for source, target in alignment.links():
        frame = Rectangle(
            (source - 0.5, target - 0.5), 1, 1, fill=False, color=LINES[1], lw=2, clip_on=False
        )
        figure.axes[0].add_patch(frame)
    return figure


FIGURES: dict[str, Callable[..., Picture]] = {
    "map": of_map,
    "head": of_head,
    "lens": of_lens,
    "path": of_path,
    "alignment": of_alignment,
}


def _matrix(
    title: str, values: Tensor, queries: list[str], keys: list[str], *, causal: bool = False
) -> Picture:
    T, S = values.shape
    cell = 0.46 if max(T, S) <= NUMBERED else max(9 / max(T, S), 0.17 if max(T, S) < 60 else 0.0)
    longest = 0.085 * max(map(len, (*_labels(queries), *_labels(keys))))
    figure, axes = _blank(max(2.2, cell * S) + longest + 1.5, max(1.6, cell * T) + longest + 1.0)
    ahead = torch.ones(T, S).triu(1).bool() if causal else torch.zeros(T, S).bool()
    seen = values.masked_fill(ahead, torch.nan)
    norm = PowerNorm(0.5, 0, 1)
    image = axes.imshow(seen.numpy(), cmap=COLOURS, norm=norm, aspect="equal")
    axes.set_facecolor(UNSEEN)
    if max(T, S) <= NUMBERED:
        for i, row in enumerate(seen.tolist()):
            for j, value in enumerate(row):
                if value == value:  # not a masked position
                    _write(axes, i, j, f"{value:.2f}".removeprefix("0"), value**0.5)
    _tokens(axes, keys, queries, turned=True)
    axes.set_title(title, pad=12)
    _bare(axes)
    _scale(figure, image, "weight")
    return figure


def _picture(width: float, height: float) -> Picture:
    return Picture(figsize=(width, height), dpi=150, layout="constrained", facecolor="white")


def _blank(width: float, height: float) -> tuple[Picture, Axes]:
    figure = _picture(width, height)
    return figure, figure.subplots()


def _bare(axes: Axes) -> None:
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def _scale(figure: Picture, image: Any, name: str) -> None:
    bar = figure.colorbar(image, shrink=0.8, aspect=24, pad=0.02, ticks=(0, 0.1, 0.25, 0.5, 1))
    bar.set_label(name)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _tokens(axes: Axes, above: list[str], beside: list[str], *, turned: bool = False) -> None:
    """Labels on top and on the left; of many only some."""
    for axis, names in ((axes.xaxis, above), (axes.yaxis, beside)):
        step = -(-len(names) // LABELLED)
        places = range(0, len(names), step)
        small = 9 if len(names) <= 30 else 6.5
        style: dict[str, Any] = {"fontsize": small, "family": _family(), "parse_math": False}
        if axis is axes.xaxis and turned:
            style["rotation"] = 90
        axis.set_ticks(places, [_labels(names)[i] for i in places], **style)
    axes.xaxis.set_ticks_position("top")


def _write(axes: Axes, row: int, column: int, text: str, darkness: float) -> None:
    colour = "white" if darkness > 0.6 else "#222222"
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "color": colour}
    axes.text(column, row, text, family=_family(), parse_math=False, **style)


def _count(number: int) -> list[str]:
    return [str(i) for i in range(number)]


def _labels(tokens: Sequence[str]) -> list[str]:
    return [_short(token, 16) for token in tokens]


def _short(token: str, most: int) -> str:
    text = printable(token)
    return text if len(text) <= most else text[: most - 1] + "…"


def _family() -> list[str]:
    installed = set(get_font_names())
    return [name for name in FONTS if name in installed]
