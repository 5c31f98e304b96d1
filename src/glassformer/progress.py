"""Progress with the time left, on stderr: one live line on a terminal or in a notebook, a plain
line every few seconds elsewhere."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

LIVE, EVERY = 0.2, 5.0  # seconds between updates of a live line, and between plain lines


def duration(seconds: float) -> str:
    """A time in its two largest units: 40 s, 12 min, 3 h 5 min, 2 d 4 h."""
    minutes, hours, days = (int(seconds / unit) for unit in (60, 3_600, 86_400))
    if minutes < 1:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if days < 1 else f"{days} d {hours % 24} h"


class TimeLeft:
    """The time left of some work, from its pace so far; `share` of it was done before."""

    def __init__(self, share: float = 0.0) -> None:
        self.start, self.before = time.monotonic(), share

    def __call__(self, share: float) -> str:
        """A text such as `2 min left`; empty as long as nothing is known."""
        if share <= self.before:
            return ""
        elapsed = time.monotonic() - self.start
        return f"{duration(elapsed * (1 - share) / (share - self.before))} left"


class LiveLine:
    """What is being done, how far it is, and the time left."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.work = ""
        self.bar: Progress | None = None

    @property
    def redraws(self) -> bool:
        return self.console.is_terminal or self.console.is_jupyter

    def begin(self, work: str, share: float = 0.0) -> None:
        """Other work begins; a plain line appears only if it takes long."""
        self.work, self.left = work, TimeLeft(share)
        self.last = 0.0 if self.redraws else time.monotonic()

    def due(self) -> bool:
        """Whether it is time to show something."""
        return time.monotonic() >= self.last + (LIVE if self.redraws else EVERY)

    def show(self, title: str, share: float | None, *facts: str) -> None:
        """Show how far the work is, if that is known."""
        self.last = time.monotonic()
        left = "" if share is None else self.left(share)
        text = "  ".join(part for part in (*facts, left) if part)
        if not self.redraws:
            self.console.print(f"{title}  {text}", highlight=False, soft_wrap=True)
            return
        if self.bar is None:
            from rich.progress import BarColumn, Progress, TextColumn

            names = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
            columns = names[0], BarColumn(20), names[1]
            self.bar = Progress(*columns, console=self.console, transient=True)
            self.task = self.bar.add_task(title, total=None, text="")
            self.bar.start()
        total, done = (None, 0.0) if share is None else (1.0, share)
        self.bar.update(self.task, description=title, total=total, completed=done, text=text)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


Advance = Callable[[int, str], None]  # by how much, and a note to show beside the bar


@contextmanager
def progress_bar(title: str, total: int, *, done: int = 0, shown: bool = True) -> Iterator[Advance]:
    """Show work from `done` to `total`; the block calls what it yields after each part of it."""
    if not shown:
        yield lambda count, note: None
        return
    from rich.console import Console

    # A notebook can redraw a line only with ipywidgets.
    notebook = None if importlib.util.find_spec("ipywidgets") else False
    live = LiveLine(Console(stderr=True, force_jupyter=notebook))
    live.begin(title, done / max(1, total))

    def advance(count: int, note: str) -> None:
        nonlocal done
        done += count
        if live.due() or done >= total:
            live.show(title, done / max(1, total), f"{done:,}/{total:,}", note)

    try:
        yield advance
    finally:
        live.close()
