"""Progress on stderr: one live line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TextColumn

from glassformer.cli.console import Console
from glassformer.errors import counted

if TYPE_CHECKING:
    from glassformer.train.fit import Run
    from glassformer.train.loop import Step
    from glassformer.train.trainer import Event, Trainer

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

    def begin(self, work: str, share: float = 0.0) -> None:
        """Other work begins; a plain line appears only if it takes long."""
        self.work, self.left = work, TimeLeft(share)
        self.last = 0.0 if self.console.is_terminal else time.monotonic()

    def due(self) -> bool:
        """Whether it is time to show something."""
        return time.monotonic() >= self.last + (LIVE if self.console.is_terminal else EVERY)

    def show(self, title: str, share: float | None, *facts: str) -> None:
        """Show how far the work is, if that is known."""
        self.last = time.monotonic()
        left = "" if share is None else self.left(share)
        text = "  ".join(part for part in (*facts, left) if part)
        if not self.console.is_terminal:
            self.console.print(f"{title}  {text}", highlight=False)
            return
        if self.bar is None:
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


class Display:
    """Shows the events of a run, and the work before it."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console, self.quiet = Console(stderr=True), quiet
        self.live = LiveLine(self.console)
        self.printed: set[str] = set()
        self.seen: deque[tuple[float, int]] = deque(maxlen=50)  # times and tokens of steps
        self.steps = 0  # of the whole run

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        self.live.close()

    def report(self, line: str, progress: Any) -> None:
        """A line about the data, printed once; or the progress of long work."""
        if self.quiet or (progress is None and line in self.printed):
            return
        if progress is None:  # train and valid may be of the same file
            self.printed.add(line)
            self.console.print(line, style="dim", highlight=False)
            return
        if line != self.live.work:
            self.live.begin(line)
        if self.live.due():
            sizes = {"documents": progress.documents, "tokens": progress.tokens}
            facts = (counted(count, name) for name, count in sizes.items() if count)
            self.live.show(line, progress.share, *facts)

    def begin(self, run: Run) -> None:
        """A run starts, or resumes."""
        self.steps, self.peak = run.recipe.train.steps, _peak(run.trainer)
        self.live.begin("training", run.trainer.state.progress.step / self.steps)

    def show(self, event: Event) -> None:
        from glassformer.train.loop import Step
        from glassformer.train.trainer import Evaluated, RolledBack

        if self.quiet:
            return
        if isinstance(event, Step):
            self._step(event)
        elif isinstance(event, Evaluated):
            metrics = "  ".join(f"{name} {value:.4f}" for name, value in event.metrics.items()
                             if name != "answers")  # fmt: skip
            best = "  (best)" if event.better else ""
            self._line(f"step {event.step:>6,}  valid: {metrics}{best}")
        elif isinstance(event, RolledBack):
            self._line(
                f"step {event.bad:,}: {event.why}: rolled back to step {event.step:,}, "
                "its rows are skipped"
            )

    def _step(self, step: Step) -> None:
        self.seen.append((time.monotonic(), step.tokens))
        if self.live.due() or step.number == self.steps:
            facts = (f"loss {step.loss:.4f}", f"lr {step.rate:.2g}", *self._speed(), _memory())
            share = step.number / self.steps
            self.live.show(f"step {step.number:,}/{self.steps:,}", share, *facts)

    def _speed(self) -> Iterator[str]:
        if len(self.seen) > 1:
            seconds = self.seen[-1][0] - self.seen[0][0]
            speed = sum(tokens for _, tokens in list(self.seen)[1:]) / max(seconds, 1e-9)
            yield f"{speed:,.0f} tokens/s"
            if self.peak is not None:
                yield f"{100 * speed * self.peak[0] / self.peak[1]:.0f} % of peak"

    def _line(self, line: str) -> None:
        self.console.print(line, highlight=False)


def _memory() -> str:
    """The most memory of the GPU that tensors took; nothing without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return ""
    return f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB"


def _peak(trainer: Trainer) -> tuple[float, float] | None:
    """FLOPs of a token, and those of the GPU in a second, where they are known."""
    import torch

    if not torch.cuda.is_available() or trainer.state.train.precision != "bfloat16":
        return None
    known = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "4090": 165e12}
    name = torch.cuda.get_device_name()
    chip = next((peak for part, peak in known.items() if part in name), None)
    inner = sum(p.numel() for n, p in trainer.state.task.named_parameters() if "embedding" not in n)
    return None if chip is None else (6.0 * inner, chip)
