"""The events of a run on stderr, and the work before it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from glassformer.cli.console import Console
from glassformer.errors import counted
from glassformer.progress import LiveLine

if TYPE_CHECKING:
    from glassformer.train.fit import Run
    from glassformer.train.loop import Step
    from glassformer.train.trainer import Event, Trainer


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
