"""What a trace holds, as tables like those of the lectures: tokens as headers, two decimals.

A `Table` is one of rich's: it prints in colour on a console, shows in a notebook, and `str(table)`
is plain text. What does not fit into `width` characters is left out, and a note says so.
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
from glassformer.glass.stacks import main_stack, place, sides
from glassformer.glass.trace import Trace
from glassformer.precision import widen

WIDTH, ROWS = 100, 40


class Table(rich.table.Table):
    """With a heading and a note that may be wider than the table itself."""

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


def tokens(trace: Trace, *, width: int = WIDTH) -> Table:
    """The tokens and their numbers; of a translation first those that are read."""
    texts = [trace.source_tokens, trace.tokens] if trace.source_tokens else [trace.tokens]
    longest = max(map(len, texts))
    names = ["reads", "writes"] if trace.source_tokens else ["token"]
    rows = [[Text(printable(word)) for word in text] for text in texts]
    filled = [row + [Text("")] * (longest - len(row)) for row in rows]
    return grid("tokens", names, [str(i) for i in range(longest)], filled, width)


def of_head(
    trace: Trace,
    *,
    stack: str | None = None,
    layer: int = 0,
    head: int | None = None,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """Where one head looks (T×S): a row for each token that asks; `head` None is their mean."""
    stack = stack or main_stack(trace)
    values, title = one_head(trace, stack, layer, head)
    asking, asked = sides(trace, stack)
    ahead = Text("·", "dim")
    cells = [
        [ahead if stack == "decoder" and j > i else number(v) for j, v in enumerate(row)]
        for i, row in enumerate(values.tolist())
    ]
    return grid(title, asking, asked, cells, width, rows)


def heads(
    trace: Trace, *, stack: str | None = None, measure: str = "type", width: int = WIDTH
) -> Table:
    """One measure of every head, layers down and heads across: see `head_measures`; or its type."""
    stack = stack or main_stack(trace)
    if measure == "type":
        found = [[Text(name or "–") for name in row] for row in head_types(trace, stack)]
    else:
        known = head_measures(trace, stack)
        if measure not in known:
            raise ConfigError(f"measure {measure!r}: write type, {', '.join(known)}")
        found = [[number(value) for value in row] for row in known[measure].tolist()]
    names = [f"layer {i}" for i in range(len(found))]
    columns = [f"head {i}" for i in range(len(found[0]))]
    return grid(f"{stack}: {measure}", names, columns, found, width)


def answers(
    trace: Trace,
    *,
    model: nn.Module,
    top_k: int = 3,
    at: Sequence[int] | None = None,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """What the model says at each token, or at some, best first."""
    said = predictions(model, trace, top_k=top_k)
    places = range(len(said.tokens)) if at is None else at
    cells = [_words(said, place) for place in places]
    columns = ["best", *("or" for _ in range(1, top_k))][: len(cells[0]) if cells else 0]
    names = [said.tokens[place] for place in places]
    return grid("what the model says", names, columns, cells, width, rows)


def through_the_lens(
    trace: Trace, *, model: nn.Module, inside: bool = False, width: int = WIDTH, rows: int = ROWS
) -> Table:
    """What it would say after each layer, if that were the last: the best word at each token."""
    found = lens(model, trace, top_k=1, inside=inside)
    cells = [
        [_words(said, place)[0] for place in range(len(said.tokens))] for said in found.values()
    ]
    names = [point(name) for name in found]
    return grid("what it would say after each layer", names, trace.tokens, cells, width, rows)


def path(trace: Trace, *, token: int | str = 0, stack: str | None = None) -> Table:
    """One word through the layers: its length, and its cosine to where it began and ended."""
    found = word_path(trace, token, stack or main_stack(trace))
    rows = zip(found.norm.tolist(), found.to_start.tolist(), found.to_end.tolist(), strict=True)
    cells = [[Text(f"{value:.2f}") for value in row] for row in rows]
    names = [point(name) for name in found.points]
    columns = ["length", "cosine to the start", "to the end"]
    return grid(f"{printable(found.token)} through the layers", names, columns, cells)


def aligned(
    trace: Trace,
    *,
    layers: Sequence[int] | None = None,
    reading: bool = False,
    width: int = WIDTH,
    rows: int = ROWS,
) -> Table:
    """Which source token each written one looked at; the largest of each row stands out."""
    found = align_tokens(trace, layers=layers, reading=reading)
    chosen = {(j, i) for i, j in found.links()}
    cells = [
        [Text(f"{v:.2f}", "bold green" if (j, i) in chosen else "dim") for i, v in enumerate(row)]
        for j, row in enumerate(found.weights.tolist())
    ]
    return grid("which token came from which", found.target, found.source, cells, width, rows)


TABLES: dict[str, Callable[..., Table]] = {
    "tokens": tokens,
    "weights": of_head,
    "heads": heads,
    "says": answers,
    "lens": through_the_lens,
    "path": path,
    "alignment": aligned,
}


def one_head(trace: Trace, stack: str, layer: int, head: int | None) -> tuple[Tensor, str]:
    """(T, S) and its title; the mean of a layer's heads, if none is named."""
    found = widen(trace[f"{place(trace, stack, layer, head)}.weights"])
    if head is None:
        return found.mean(0), f"{stack} layer {layer}, mean of {len(found)} heads"
    return found[head], f"{stack} layer {layer}, head {head}"


def point(name: str) -> str:
    """A place of the stream for people: "decoder.blocks.3.attention_sum" → "3 attention"."""
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
    """Names on the left, headers above; cut to what fits, with a note."""
    labels, heads = ([printable(name) for name in each] for each in (names, columns))
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


def _words(said: Prediction, place: int) -> list[Text]:
    pairs = zip(said.words[place], said.chances[place].tolist(), strict=True)
    return [Text.assemble(printable(word), " ", number(chance)) for word, chance in pairs]
