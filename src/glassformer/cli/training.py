"""`glassformer pretrain` and `finetune`: the same loop, from fresh weights or from a model."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from glassformer.errors import ConfigError, GlassformerError

if TYPE_CHECKING:
    from glassformer.train.loop import Step
    from glassformer.train.recipe import Recipe
    from glassformer.train.session import Event, Session

ROOT = "GLASSFORMER_DATA"
ALSO = {"max_tokens": "train.tokens"}  # other names of fields
EVERY = 5.0  # seconds between lines where there is no terminal
RECIPE = typer.Argument(help="A recipe: a TOML file.", metavar="RECIPE")
DATA = typer.Option(None, "--data", help=f"Where the recipe's data lies (or set {ROOT}).")
OUT = typer.Option(None, "--out", help="The run's folder; runs/NAME if not given.")
DRY = typer.Option(False, "--dry-run", help="Say what would be done, and stop.")
JSON = typer.Option(False, "--json", help="Print JSON.")


def pretrain(
    context: typer.Context,
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    out: Path | None = OUT,
    dry_run: bool = DRY,
    as_json: bool = JSON,
) -> None:
    """Train a model from fresh weights. Any field of the recipe can be set: --train.steps 100.

    The same command goes on where a run was broken off.
    """
    _run(recipe, data, out, dry_run, as_json, _changes(context.args))


def finetune(
    context: typer.Context,
    model: str = typer.Argument(help="The model folder to start from."),
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    out: Path | None = OUT,
    dry_run: bool = DRY,
    as_json: bool = JSON,
) -> None:
    """Go on training a model with its own tokenizer. Fields are set as in pretrain."""
    changes = _changes(context.args) | {"start": model}
    _run(recipe, data, out, dry_run, as_json, changes)


def _changes(words: list[str]) -> dict[str, str]:
    """`--train.steps 100` and `--train.steps=100`."""
    found, rest = {}, list(words)
    while rest:
        name, given, value = rest.pop(0).partition("=")
        if not name.startswith("--") or (not given and not rest):
            raise ConfigError(f"{name}: write a field of the recipe and a value: --train.steps 100")
        field = name[2:].replace("-", "_")
        found[ALSO.get(field, field)] = value if given else rest.pop(0)
    return found


def _run(
    path: Path, data: Path | None, out: Path | None, dry: bool, as_json: bool,
    changes: dict[str, str],
) -> None:  # fmt: skip
    from glassformer.train.recipe import read_recipe

    recipe = read_recipe(path, changes)
    root = data or Path(os.environ.get(ROOT, path.parent))
    console = Console(stderr=True)
    from glassformer.train.build import Place, build_session
    from glassformer.train.distributed import join
    from glassformer.train.run import locked

    world = join(recipe.train.device)
    show = _Screen(console, recipe, quiet=not world.leads)
    place = Place(root, out or Path("runs") / recipe.name, str(path), show.tell)
    try:
        with locked(place.out) if world.leads else nullcontext():
            session = build_session(recipe, place, world)
            recipe = recipe.model_copy(update={"train": session.state.train})  # tokens are found
            if dry:
                from glassformer.cli.dry import describe

                if world.leads:
                    describe(session, recipe, place.out, as_json)
                return
            result = _pursue(session, recipe, show)
    finally:
        show.close()
        world.close()
    if world.leads:
        _tell_result(result, as_json)


def _pursue(session: Session, recipe: Recipe, show: _Screen) -> dict[str, Any]:

    asked: list[int] = []
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, _: asked.append(number) if not asked else os._exit(75))
    session.stop = lambda: bool(asked)
    return _inside(session, recipe, show)


def _inside(session: Session, recipe: Recipe, show: _Screen) -> dict[str, Any]:
    import torch

    from glassformer.train.setup import finish, ready

    ready(session, recipe, lambda line: show.tell(line, None))
    show.begin(session)
    try:
        for event in session.pursue():
            show.see(event)
    except torch.OutOfMemoryError:
        tokens = recipe.train.tokens
        half = tokens // 2 if isinstance(tokens, int) else 4096
        raise GlassformerError(
            f"out of memory with train.tokens = {tokens}: lower it (--train.tokens {half} "
            f"--train.rows {2 * recipe.train.rows} learns the same), or set --train.recompute true"
        ) from None
    return finish(session, recipe)


def _tell_result(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result))
        return
    figures = result.get("valid") or {}
    told = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
    typer.echo(f"{result['model']}  {told}")


class _Screen:
    """What the run is doing: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, recipe: Recipe, *, quiet: bool) -> None:
        self.console, self.recipe, self.quiet = console, recipe, quiet
        self.bar: Progress | None = None
        self.seen: deque[tuple[float, int]] = deque(maxlen=50)
        self.last = 0.0
        self.doing = ""

    def tell(self, line: str, progress: Any) -> None:
        now = time.monotonic()
        if self.quiet or (progress is not None and line == self.doing and now < self.last + EVERY):
            return
        self.doing, self.last = line, now
        if progress is not None and progress.documents:
            line += f": {progress.documents:,} documents, {progress.tokens:,} tokens"
        self.console.print(line, style="dim", highlight=False)

    def begin(self, session: Session) -> None:
        self.peak = _peak(session)
        if self.quiet or not self.console.is_terminal:
            return
        columns: tuple[ProgressColumn, ...] = (
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=None),
            TextColumn("loss {task.fields[loss]:.4f}  {task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task(
            "", total=self.recipe.train.steps, loss=float("nan"), speed="",
            completed=session.state.facts.step,
        )  # fmt: skip
        self.bar.start()

    def see(self, event: Event) -> None:
        from glassformer.train.loop import Step
        from glassformer.train.session import Evaluated, WentBack

        if self.quiet:
            return
        if isinstance(event, Step):
            self._step(event)
        elif isinstance(event, Evaluated):
            told = "  ".join(f"{name} {value:.4f}" for name, value in event.figures.items()
                             if name != "answers")  # fmt: skip
            best = "  (best)" if event.better else ""
            self._line(f"step {event.step:>6,}  valid: {told}{best}")
        elif isinstance(event, WentBack):
            self._line(f"step {event.bad:,}: {event.why}: back to step {event.step:,} without it")

    def _step(self, step: Step) -> None:
        now = time.monotonic()
        self.seen.append((now, step.tokens))
        if now < self.last + (0.5 if self.bar else EVERY) and step.number < self.recipe.train.steps:
            return
        self.last = now
        if self.bar:
            self.bar.update(self.task, completed=step.number, loss=step.loss, speed=self._speed())
        else:
            self._line(f"step {step.number:>6,}  loss {step.loss:.4f}  {self._speed()}")

    def _speed(self) -> str:
        import torch

        if len(self.seen) < 2:
            return ""
        seconds = self.seen[-1][0] - self.seen[0][0]
        speed = sum(tokens for _, tokens in list(self.seen)[1:]) / max(seconds, 1e-9)
        told = f"{speed:,.0f} tokens/s"
        if self.peak:
            told += f"  {100 * speed * self.peak[0] / self.peak[1]:.0f} % of peak"
        if torch.cuda.is_available():
            told += f"  {torch.cuda.max_memory_allocated() / 1e9:.1f} GB"
        return told

    def _line(self, line: str) -> None:
        self.console.print(line, highlight=False)

    def close(self) -> None:
        if self.bar:
            self.bar.stop()


def _peak(session: Session) -> tuple[float, float] | None:
    """FLOPs a token takes, and the chip's in a second, where it is known."""
    import torch

    if not torch.cuda.is_available() or session.state.train.precision != "bfloat16":
        return None
    known = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "4090": 165e12}
    name = torch.cuda.get_device_name()
    chip = next((peak for part, peak in known.items() if part in name), None)
    inner = sum(p.numel() for n, p in session.state.task.named_parameters() if "embedding" not in n)
    return None if chip is None else (6.0 * inner, chip)
