"""A page of the studio in a notebook: the same page, in a frame of its own.

    trace.view("head", layer=3, head=7)

The frame holds the whole page and the trace's weights, so that it also works where no kernel and
no network is: in a notebook that was exported, or years later. It may run its own script and
nothing else. Where anywidget is installed, `view.widget()` can be steered and read from Python.
"""

from __future__ import annotations

import html
import json
import operator
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from glassformer.errors import ConfigError, InputError
from glassformer.glass import Trace
from glassformer.glass.path import position
from glassformer.glass.stacks import place, sides
from glassformer.studio import encode as pictures
from glassformer.studio import measured, standalone
from glassformer.studio.numbers import row
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Models, StackName
from glassformer.studio.schemas import View as Kind
from glassformer.studio.trace_upload import alone, row_of

PAGES = ("map", "head")  # those that need no model
ID = "t1"
MOST_HELD = 6 << 20  # bytes of heads and rows, as they stand in the page
FRAME = (
    '<iframe title="glassformer: {title}" sandbox="allow-scripts allow-downloads" '
    'style="width: 100%; height: {height:d}px; border: 0" srcdoc="{page}"></iframe>'
)


class View:
    """What a notebook shows: a page of the studio, in a frame. `html` is the page itself."""

    def __init__(self, html: str, *, title: str, height: int) -> None:
        self.html, self.title, self.height = html, title, height

    def _repr_html_(self) -> str:
        return FRAME.format(
            title=html.escape(self.title), height=self.height, page=html.escape(self.html)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """One file that opens from disk, without the studio and without the network."""
        try:
            Path(path).write_text(self.html, "utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None

    def widget(self) -> Any:
        """An anywidget: `address` follows what is clicked, and moves the page when it is set."""
        try:
            from glassformer.studio.widget import StudioFrame
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "anywidget":
                raise
            raise ConfigError(
                "a widget takes anywidget: pip install 'glassformer[notebook]'"
            ) from None
        return StudioFrame(page=self.html, name=self.title, height=self.height)


def view(
    trace: Trace, page: str = "map", *, stack: StackName | None = None, layer: int = 0,
    head: int = 0, token: int | str | None = None, weights: str = "raw", theme: str = "",
    height: int = 680,
) -> View:  # fmt: skip
    """`page` is "map" (all heads) or "head"; `token` the one that looks, by its number or text.

    `weights` are "raw", "mean" (of a layer's heads) or "rollout"; `theme` "light" or "dark".
    """
    for name, value, known in (
        ("page", page, PAGES), ("weights", weights, ("raw", "mean", "rollout")),
        ("theme", theme, ("", "light", "dark")),
    ):  # fmt: skip
        if value not in known:
            raise ConfigError(f"view: {name} = {value!r}: write {', '.join(map(repr, known))}")
    numbers = {"layer": layer, "head": head, "height": height}
    layer, head, height = (_whole(name, value) for name, value in numbers.items())
    run = alone(trace, ID)
    stack = stack or run.row.stacks[0].name
    place(trace, stack, layer, head)
    state = {"in": stack, "l": layer, "h": head, "w": weights, "theme": theme}
    if token is not None:
        state["q"] = position(sides(trace, stack)[0], token)
    address = f"#/{page}?{urlencode(state)}"
    held = dict(_answers(run, stack, layer, head))
    title = f"{page} of {' '.join(trace.tokens)}"
    return View(standalone.page(address, PAGES, held), title=title, height=height)


def _whole(name: str, value: int) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        found = -1
    if found < 0:
        raise ConfigError(f"view: {name} = {value!r}: write a whole number, 0 or more")
    return found


def _answers(
    run: RecordedRun, stack: StackName, layer: int, head: int
) -> Iterator[tuple[str, standalone.Answer]]:
    """All that the pages may ask, as far as there is room."""
    asked: dict[str, Any] = {"model": run.id, "text": run.ask.text, "second": None, "off": []}
    yield "models", Models(models=[row_of(run)])
    yield "runs" + json.dumps(asked, ensure_ascii=False, separators=(",", ":")), run.row
    yield f"runs/{run.id}/measures", measured.measures(run)
    for each in run.row.stacks:
        yield f"runs/{run.id}/map/{each.name}", pictures.small(run, each.name)
    room = MOST_HELD
    for path, size, make in _heads(run, (stack, layer, head)):
        room -= size
        if room < 0:
            return
        yield path, make()


def _heads(
    run: RecordedRun, chosen: tuple[StackName, int, int]
) -> Iterator[tuple[str, int, Callable[[], standalone.Answer]]]:
    """What is most wanted first: the chosen head, the others' pictures, then all their numbers.

    Each with its size as it stands in the page.
    """
    sizes = {each.name: each for each in run.row.stacks}
    all_of_them = [
        (each.name, layer, head)
        for each in run.row.stacks
        for layer in range(each.layers)
        for head in range(each.heads)
    ]

    def picture(at: tuple[StackName, int, int], view: Kind) -> Any:
        path = f"runs/{run.id}/head/{'/'.join(map(str, at))}?view={view}"
        size = sizes[at[0]].rows * sizes[at[0]].columns * 4 // 3
        return path, size, partial(pictures.head, run, *at, view)

    def rows(at: tuple[StackName, int, int]) -> Any:
        for query in range(sizes[at[0]].rows):
            path = f"runs/{run.id}/row/{'/'.join(map(str, at))}/{query}"
            yield path, 44 * sizes[at[0]].columns, partial(row, run, *at, query)

    yield picture(chosen, "raw")
    yield from rows(chosen)
    yield from (picture(at, "raw") for at in all_of_them)
    for at in all_of_them:
        yield picture(at, "mean")
        if at[0] != "cross":
            yield picture(at, "rollout")
    for at in all_of_them:
        yield from rows(at)
