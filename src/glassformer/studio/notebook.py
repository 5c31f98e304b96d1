"""A page of the studio in a notebook: the same page, in an iframe.

    trace.view("head", layer=3, head=7)

The frame contains the whole page and the trace's weights, so that it works without a kernel and
without a network, for example in an exported notebook. It may run its own script and nothing else.
With anywidget installed, `view.widget()` can be read and controlled from Python.
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

from glassformer.errors import ConfigError, InputError, shown
from glassformer.glass import Trace
from glassformer.glass.path import position
from glassformer.glass.stacks import StackName, place, sides
from glassformer.studio import standalone
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Models, WeightsView
from glassformer.studio.trace_upload import run_from_trace, uploaded_row
from glassformer.studio.views import encode, measures
from glassformer.studio.views.numbers import attention_row

PAGES = ("map", "head")  # the pages that need no model
ID = "t1"
MAX_EMBEDDED = 6 << 20  # bytes of heads and rows in the page
FRAME = (
    '<iframe title="glassformer: {title}" sandbox="allow-scripts allow-downloads" '
    'style="width: 100%; height: {height:d}px; border: 0" srcdoc="{page}"></iframe>'
)


class View:
    """A page of the studio in a notebook. `html` is the page itself."""

    def __init__(self, html: str, *, title: str, height: int) -> None:
        self.html, self.title, self.height = html, title, height

    def __repr__(self) -> str:
        return f"View({self.title!r})"

    def _repr_html_(self) -> str:
        return FRAME.format(
            title=html.escape(self.title), height=self.height, page=html.escape(self.html)
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one HTML file that opens from disk, without the studio and without a network."""
        try:
            Path(path).write_text(self.html, "utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None

    def widget(self) -> Any:
        """An anywidget; its `address` changes with every click, and setting it moves the page.

        Raises ConfigError if anywidget is not installed.
        """
        try:
            from glassformer.studio.widget import StudioFrame
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "anywidget":
                raise
            raise ConfigError(
                "a widget needs anywidget: pip install 'glassformer[notebook]'"
            ) from None
        return StudioFrame(page=self.html, name=self.title, height=self.height)


def view(
    trace: Trace, page: str = "map", *, stack: StackName | None = None, layer: int = 0,
    head: int = 0, token: int | str | None = None, weights: str = "raw", theme: str = "",
    height: int = 680,
) -> View:  # fmt: skip
    """A page of the studio for a trace, to show in a notebook.

    `page` is "map" (all heads) or "head"; `token` is the query, by its position or text.
    `weights` are "raw", "mean" (of a layer's heads) or "rollout"; `theme` is "light" or "dark".

    Examples:
        >>> gf.view(trace, "head", layer=0, head=1, token="cat").save("head.html")
    """
    if not isinstance(trace, Trace):
        raise ConfigError(f"view({shown(trace)}): give a trace: gf.record(model, text)")
    for name, value, allowed in (
        ("page", page, PAGES), ("weights", weights, ("raw", "mean", "rollout")),
        ("theme", theme, ("", "light", "dark")),
    ):  # fmt: skip
        if value not in allowed:
            raise ConfigError(f"view: {name} = {value!r}: write {', '.join(map(repr, allowed))}")
    numbers = {"layer": layer, "head": head, "height": height}
    layer, head, height = (_whole(name, value) for name, value in numbers.items())
    run = run_from_trace(trace, ID)
    stack = stack or run.row.stacks[0].name
    place(trace, stack, layer, head)
    state = {"in": stack, "l": layer, "h": head, "w": weights, "theme": theme}
    if token is not None:
        state["q"] = position(sides(trace, stack)[0], token)
    address = f"#/{page}?{urlencode(state)}"
    answers = dict(_answers(run, stack, layer, head))
    title = f"{page} of {' '.join(trace.tokens)}"
    return View(standalone.page(address, PAGES, answers), title=title, height=height)


def _whole(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise ConfigError(f"view: {name} = {value!r}: write a whole number, 0 or more")
    return number


def _answers(
    run: RecordedRun, stack: StackName, layer: int, head: int
) -> Iterator[tuple[str, standalone.ResponseContent]]:
    """The responses that the pages may request, up to MAX_EMBEDDED bytes."""
    request: dict[str, Any] = {"model": run.id, "text": run.request.text, "second": None, "off": []}
    yield "models", Models(models=[uploaded_row(run)])
    yield "runs" + json.dumps(request, ensure_ascii=False, separators=(",", ":")), run.row
    yield f"runs/{run.id}/measures", measures.measures(run)
    for each in run.row.stacks:
        yield f"runs/{run.id}/map/{each.name}", encode.all_heads(run, each.name)
    left = MAX_EMBEDDED
    for path, size, compute in _heads(run, (stack, layer, head)):
        left -= size
        if left < 0:
            return
        yield path, compute()


def _heads(
    run: RecordedRun, chosen: tuple[StackName, int, int]
) -> Iterator[tuple[str, int, Callable[[], standalone.ResponseContent]]]:
    """(URL, size, function) of all responses: the chosen head, then pictures, then rows."""
    sizes = {each.name: each for each in run.row.stacks}
    heads = [
        (each.name, layer, head)
        for each in run.row.stacks
        for layer in range(each.layers)
        for head in range(each.heads)
    ]

    def picture(at: tuple[StackName, int, int], view: WeightsView) -> Any:
        path = f"runs/{run.id}/head/{'/'.join(map(str, at))}?view={view}"
        size = sizes[at[0]].rows * sizes[at[0]].columns * 4 // 3
        return path, size, partial(encode.one_head, run, *at, view)

    def rows(at: tuple[StackName, int, int]) -> Any:
        for query in range(sizes[at[0]].rows):
            path = f"runs/{run.id}/row/{'/'.join(map(str, at))}/{query}"
            yield path, 44 * sizes[at[0]].columns, partial(attention_row, run, *at, query)

    yield picture(chosen, "raw")
    yield from rows(chosen)
    yield from (picture(at, "raw") for at in heads)
    for at in heads:
        yield picture(at, "mean")
        if at[0] != "cross":
            yield picture(at, "rollout")
    for at in heads:
        yield from rows(at)
