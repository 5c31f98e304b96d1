"""A progress bar on stderr, in a terminal or a notebook, with the time that is left."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, str], None]  # by how much, and a note to show beside the bar


def _silent(count: int, note: str) -> None:
    pass


@contextmanager
def progress_bar(title: str, total: int, *, shown: bool = True) -> Iterator[Advance]:
    """A bar from 0 to `total`; the block calls what it yields after each part of the work."""
    if not shown:
        yield _silent
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    # A notebook can redraw a bar only with ipywidgets; without them it gets the last line.
    notebook = None if importlib.util.find_spec("ipywidgets") else False
    console = Console(stderr=True, force_jupyter=notebook)
    columns = (
        TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        work = bar.add_task(title, total=total, note="")
        yield lambda count, note: bar.update(work, advance=count, note=note)
