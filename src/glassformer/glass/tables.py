"""Tables of a trace like those of the lectures: tokens as headers, two decimals.

A `Table` is one of rich's: it prints in colour on a console, shows in a notebook, and `str(table)`
is plain text. Columns beyond `width` characters and rows beyond `rows` are left out, with a note.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import rich.table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text
from torch import Tensor, nn

from glassformer.errors import ConfigError, printable
from glassformer.glass.alignment import align_tokens
from glassformer.glass.heads import head_measures, head_types
from glassformer.glass.lens import Prediction, lens, predictions
from glassformer.glass.path import word_path
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.stacks import main_stack, place, sides
from glassformer.precision import widen

WIDTH, ROWS = 100, 40


class Table(rich.table.Table):
    """A rich table with a heading and a note that may be wider than the table itself."""

    def __init__(self, heading: str, note: str) -> None:
        super().__init__(box=None, padding=(0, 1))
        self.heading, self.note = heading, note

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.heading, "italic")
        yield from super().__rich_console__(console, options)
        if self.note:
            yield Text(self.note, "dim")

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=10_000, color_system=None, legacy_windows=False)
        with console.capture() as captured:
            console.print(self)
        lines = captured.get().splitlines()
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def tokens(trace: RecordedTensors, *, width: int = WIDTH) -> Table:
    """The tokens and their numbers; of a translation, first those of the source."""
    texts = [trace.source_tokens, trace.tokens] if trace.source_tokens else [trace.tokens]
    longest = max(map(len, texts))
    names = ["source", "target"] if trace.source_tokens else ["token"]
    rows = [[Text(printable(word)) for word in text] for text in texts]
    filled = [row + [Text("")] * (longest - len(row)) for row in rows]
    return grid("tokens", names, [str(i) for i in range(longest)], filled, width)


def of_head(
    trace: RecordedTensors,
    *,
    stack: str | None = None,
    layer: int = 0,
    head: int | None = None,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """The weights of one head (T×S), a row per query; `head` None is the mean of all heads."""
    stack = stack or main_stack(trace)
    values, title = one_head(trace, stack, layer, head)
    queries, keys = sides(trace, stack)
    ahead = Text("·", "dim")
    cells = [
        [ahead if stack == "decoder" and j > i else number(v) for j, v in enumerate(row)]
        for i, row in enumerate(values.tolist())
    ]
    return grid(title, queries, keys, cells, width, rows)


def heads(
    trace: RecordedTensors, *, stack: str | None = None, measure: str = "type", width: int = WIDTH
) -> Table:
    """One measure of every head, layers down and heads across.

    Args:
        measure: type, or one of `head_measures`
    """
    stack = stack or main_stack(trace)
    if measure == "type":
        cells = [[Text(name or "–") for name in row] for row in head_types(trace, stack)]
    else:
        known = head_measures(trace, stack)
        if measure not in known:
            raise ConfigError(f"measure {measure!r}: write type, {', '.join(known)}")
        cells = [[number(value) for value in row] for row in known[measure].tolist()]
    names = [f"layer {i}" for i in range(len(cells))]
    columns = [f"head {i}" for i in range(len(cells[0]))]
    return grid(f"{stack}: {measure}", names, columns, cells, width)


def predicted(
    trace: RecordedTensors,
    *,
    model: nn.Module,
    top_k: int = 3,
    at: Sequence[int] | None = None,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """The model's predictions at each token, or at the tokens `at`, best first."""
    best = predictions(model, trace, top_k=top_k)
    places = range(len(best.tokens)) if at is None else at
    cells = [_words(best, place) for place in places]
    columns = ["best", *("or" for _ in range(1, top_k))][: len(cells[0]) if cells else 0]
    names = [best.tokens[place] for place in places]
    return grid("predictions", names, columns, cells, width, rows)


def by_lens(
    trace: RecordedTensors,
    *,
    model: nn.Module,
    inside: bool = False,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """The logit lens: the best word at each token, if the layer of the row were the last."""
    readings = lens(model, trace, top_k=1, inside=inside)
    cells = [
        [_words(best, place)[0] for place in range(len(best.tokens))] for best in readings.values()
    ]
    names = [point(name) for name in readings]
    return grid("best word after each layer", names, trace.tokens, cells, width, rows)


def path(trace: RecordedTensors, *, token: int | str = 0, stack: str | None = None) -> Table:
    """One word through the layers: its length, and its cosine to the first and the last vector."""
    word = word_path(trace, token, stack or main_stack(trace))
    rows = zip(word.norm.tolist(), word.to_start.tolist(), word.to_end.tolist(), strict=True)
    cells = [[Text(f"{value:.2f}") for value in row] for row in rows]
    names = [point(name) for name in word.points]
    columns = ["length", "cosine to the start", "to the end"]
    return grid(f"{printable(word.token)} through the layers", names, columns, cells)


def aligned(
    trace: RecordedTensors,
    *,
    layers: Sequence[int] | None = None,
    reading: bool = False,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """Which source token each target token attended to; the largest of each row is highlighted."""
    alignment = align_tokens(trace, layers=layers, reading=reading)
    chosen = {(j, i) for i, j in alignment.links()}
    cells = [
        [Text(f"{v:.2f}", "bold green" if (j, i) in chosen else "dim") for i, v in enumerate(row)]
        for j, row in enumerate(alignment.weights.tolist())
    ]
    return grid("token alignment", alignment.target, alignment.source, cells, width, rows)


TABLES: dict[str, Callable[..., Table]] = {
    "tokens": tokens,
    "weights": of_head,
    "heads": heads,
    "predictions": predicted,
    "lens": by_lens,
    "path": path,
    "alignment": aligned,
}


def one_head(
    trace: RecordedTensors, stack: str, layer: int, head: int | None
) -> tuple[Tensor, str]:
    """(T, S) and its title; the mean of the layer's heads, if `head` is None."""
    maps = widen(trace[f"{place(trace, stack, layer, head)}.weights"])
    if head is None:
        return maps.mean(0), f"{stack} layer {layer}, mean of {len(maps)} heads"
    return maps[head], f"{stack} layer {layer}, head {head}"


def point(name: str) -> str:
    """A short label for a point of the stream: "decoder.blocks.3.attention_sum" → "3 attention"."""
    parts = name.split(".")
    if "blocks" not in parts:
        return "embedding"
    place = parts[parts.index("blocks") + 1]
    inner = parts[-1] if len(parts) == 4 else parts[-2]
    return place if inner == "out" else f"{place} {inner.partition('_')[0]}"


def number(value: float) -> Text:
    style = "bold green" if value >= 0.5 else "" if value >= 0.05 else "dim"
    return Text(f"{value:.2f}", style)


def grid(
    title: str,
    names: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Text]],
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """Names on the left, headers above; what does not fit is left out, with a note."""
    labels, heads = ([printable(name) for name in texts] for texts in (names, columns))
    room = width - max(map(cell_len, labels), default=0) - 2
    fitting = 0
    for i, head in enumerate(heads):
        room -= 2 + max(cell_len(head), *(row[i].cell_len for row in cells[:rows]), 0)
        if room < 0 and fitting:
            break
        fitting += 1
    parts = [
        f"{shown} of {count} {what}"
        for shown, count, what in ((fitting, len(heads), "columns"), (rows, len(labels), "rows"))
        if shown < count
    ]
    table = Table(title, f"{' and '.join(parts)} shown" if parts else "")
    table.add_column("", style="cyan", no_wrap=True)
    for head in heads[:fitting]:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for name, row in zip(labels[:rows], cells, strict=False):
        table.add_row(Text(name), *row[:fitting])
    return table


def _words(best: Prediction, place: int) -> list[Text]:
    pairs = zip(best.words[place], best.probabilities[place].tolist(), strict=True)
    return [Text.assemble(printable(word), " ", number(chance)) for word, chance in pairs]
