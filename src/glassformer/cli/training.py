"""`glassformer pretrain` and `finetune`: the same loop, from fresh weights or from a model."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from glassformer.errors import ConfigError, GlassformerError, check_installed
from glassformer.recipe.paths import expanded, full_path
from glassformer.recipe.toml import ROOT, root_of

if TYPE_CHECKING:
    from glassformer.recipe.schema import Recipe
    from glassformer.train.loop import Step
    from glassformer.train.trainer import Event, Trainer

# other names of fields
ALSO = {
    "max_tokens": "train.micro_batch_tokens",
    "on_truncate": "objective.on_truncate",
    "skip_bad": "data.skip_bad",
}
FLAGS = ("skip_bad",)  # need no value
# What asks a run to stop; Windows has a third one, which reaches a process in the background.
STOPS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGBREAK") if hasattr(signal, name)
]
EVERY = 5.0  # seconds between lines where there is no terminal
RECIPE = typer.Argument(help="A recipe: a TOML file, or a run's folder.", metavar="RECIPE")
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

    --max-tokens auto takes the longest rows that fit; --on-truncate error stops
    if a text is longer than objective.length. A run that was broken off goes on
    by the same command.
    """
    from glassformer.recipe.schema import read_recipe

    read = read_recipe(recipe, given(context.args))
    _run(read, str(recipe), root_of(read, data, recipe), out, dry_run, as_json)


def finetune(
    context: typer.Context,
    model: str = typer.Argument(
        help="The model folder to start from; with --model: classify, tag, answer or embed."
    ),
    recipe: str | None = typer.Argument(
        None, help="A recipe, or a run's folder.", metavar="RECIPE"
    ),
    base: str | None = typer.Option(
        None, "--model", help="The model folder, where no recipe is given."
    ),
    data: Path | None = DATA,
    out: Path | None = OUT,
    dry_run: bool = DRY,
    as_json: bool = JSON,
) -> None:
    """Go on training a model with its own tokenizer. Fields are set as in pretrain.

    Without a recipe, for labelled data: finetune classification --model FOLDER --data train.tsv (or
    tag with CoNLL, answer with SQuAD files, embed with pairs). A tenth of it is held out.
    --skip-bad counts rows that cannot be used, instead of stopping.
    """
    words = context.args
    if recipe is not None and recipe.startswith("--"):  # there is none: this is the first field
        words, recipe = [recipe, *words], None
    changes = given(words)
    if base is None and recipe is not None:
        from glassformer.recipe.schema import read_recipe

        path = Path(recipe)
        read = read_recipe(path, changes | {"init_from": model})
        _run(read, recipe, root_of(read, data, path), out, dry_run, as_json)
    elif base is not None and recipe is None and data is not None:
        from glassformer.recipe.short_form import short_recipe

        data = full_path(data if data.name.strip(".") else data.resolve())  # . is no name
        read = short_recipe(model, base, data, changes)
        _run(read, f"finetune {model}", data.parent, out, dry_run, as_json)
    else:
        raise ConfigError(
            "write finetune MODEL RECIPE, or finetune classification --model MODEL --data FILE"
        )


def given(words: list[str]) -> dict[str, str]:
    """`--train.steps 100` and `--train.steps=100`."""
    found, others = sorted_out(words)
    if others:
        raise _no_field(others[0])
    return found


def sorted_out(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Fields with their values, and what is none."""
    found, others, rest = {}, [], list(words)
    while rest:
        word = rest.pop(0)
        name, given, value = word.partition("=")
        field = name[2:].replace("-", "_")
        if field in FLAGS and not given:
            given, value = "=", "true"
        if not name.startswith("--"):
            others.append(word)
            continue
        if not given and not rest:
            raise _no_field(name)
        found[ALSO.get(field, field)] = value if given else rest.pop(0)
    return found, others


def _no_field(name: str) -> ConfigError:
    return ConfigError(f"{name}: write a field of the recipe and a value: --train.steps 100")


def _run(
    recipe: Recipe, source: str, root: Path, out: Path | None, dry: bool, as_json: bool
) -> None:
    out = expanded(out) if out else Path("runs") / recipe.name
    with open_run(recipe, source, root, out) as (session, show):
        is_main = session.world.is_main
        if dry:
            from glassformer.cli.dry_run import describe

            if is_main:
                describe(session, show.recipe, session.run.folder, as_json)
            return
        result = run_to_end(session, show)
    if is_main:
        _tell_result(result, as_json)


@contextmanager
def open_run(
    recipe: Recipe, source: str, root: Path, out: Path
) -> Iterator[tuple[Trainer, Screen]]:
    """A run that is ready to learn, or to go on; nobody else is in its folder."""
    from glassformer.distributed import join
    from glassformer.train.documents import RunPaths
    from glassformer.train.fit import opened
    from glassformer.train.trainer import Interrupted

    if recipe.train.tensorboard:
        check_installed("train.tensorboard = true", "log", "tensorboard")
    for name in STOPS:
        signal.signal(name, signal.default_int_handler)
    world = join(recipe.train.device)
    show = Screen(Console(stderr=True), recipe, quiet=not world.is_main)
    try:
        with opened(recipe, RunPaths(root, out, source, show.tell), world) as (session, found):
            show.recipe = found
            yield session, show
    except KeyboardInterrupt:  # while preparing: once it learns, it is asked to stop instead
        line = f"{out}: broken off before the first step: the same command goes on"
        raise Interrupted(line) from None
    finally:
        show.close()


def run_to_end(session: Trainer, show: Screen) -> dict[str, Any]:
    """To the end, unless it is asked to stop before."""
    asked: list[int] = []
    for name in STOPS:
        signal.signal(name, lambda number, _: asked.append(number) if not asked else os._exit(75))
    session.stop = lambda: bool(asked)
    return _inside(session, show.recipe, show)


def _inside(session: Trainer, recipe: Recipe, show: Screen) -> dict[str, Any]:
    import torch

    from glassformer.train.batch_size import memory_advice
    from glassformer.train.setup import finish, ready
    from glassformer.train.tensorboard import TensorBoardLogger

    ready(session, recipe, lambda line: show.tell(line, None))
    show.begin(session)
    board = None
    if recipe.train.tensorboard and session.world.is_main:
        folder = session.run.folder / "tensorboard"
        board = TensorBoardLogger(folder, session.state.facts.step, session.world.size)
    try:
        for event in session.pursue():
            show.see(event)
            if board:
                board.see(event)
    except torch.OutOfMemoryError:
        tokens = recipe.train.micro_batch_tokens
        half = tokens // 2 if isinstance(tokens, int) else 4096
        raise GlassformerError(
            f"out of memory with train.micro_batch_tokens = {tokens}: lower it "
            f"(--train.micro_batch_tokens {half} --train.micro_batches "
            f"{2 * recipe.train.micro_batches} learns the same), or set {memory_advice(recipe)}"
        ) from None
    finally:
        if board:
            board.close()
    return finish(session, recipe)


def _tell_result(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result))
        return
    figures = result.get("valid") or {}
    told = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
    typer.echo(f"{result['model']}  {told}")


class Screen:
    """What the run is doing: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, recipe: Recipe, *, quiet: bool) -> None:
        self.console, self.recipe, self.quiet = console, recipe, quiet
        self.bar: Progress | None = None
        self.seen: deque[tuple[float, int]] = deque(maxlen=50)
        self.last = 0.0
        self.doing = ""
        self.told: set[str] = set()

    def tell(self, line: str, progress: Any) -> None:
        now = time.monotonic()
        if self.quiet or (progress is not None and line == self.doing and now < self.last + EVERY):
            return
        if progress is None:
            if line in self.told:  # of train before, and valid is of the same file
                return
            self.told.add(line)
        self.doing, self.last = line, now
        if progress is not None and progress.documents:
            line += f": {progress.documents:,} documents, {progress.tokens:,} tokens"
        self.console.print(line, style="dim", highlight=False)

    def begin(self, session: Trainer) -> None:
        self.peak = _peak(session)
        if self.quiet or not self.console.is_terminal:
            return
        columns: tuple[ProgressColumn, ...] = (
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[loss]}  {task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task(
            "", total=self.recipe.train.steps, loss="", speed="",
            completed=session.state.facts.step,
        )  # fmt: skip
        self.bar.start()

    def see(self, event: Event) -> None:
        from glassformer.train.loop import Step
        from glassformer.train.trainer import Evaluated, RolledBack

        if self.quiet:
            return
        if isinstance(event, Step):
            self._step(event)
        elif isinstance(event, Evaluated):
            told = "  ".join(f"{name} {value:.4f}" for name, value in event.figures.items()
                             if name != "answers")  # fmt: skip
            best = "  (best)" if event.better else ""
            self._line(f"step {event.step:>6,}  valid: {told}{best}")
        elif isinstance(event, RolledBack):
            self._line(f"step {event.bad:,}: {event.why}: back to step {event.step:,} without it")

    def _step(self, step: Step) -> None:
        now = time.monotonic()
        self.seen.append((now, step.tokens))
        if now < self.last + (0.5 if self.bar else EVERY) and step.number < self.recipe.train.steps:
            return
        self.last = now
        if self.bar:
            self.bar.update(
                self.task, completed=step.number, loss=f"loss {step.loss:.4f}", speed=self._speed()
            )
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


def _peak(session: Trainer) -> tuple[float, float] | None:
    """FLOPs a token takes, and the chip's in a second, where it is known."""
    import torch

    if not torch.cuda.is_available() or session.state.train.precision != "bfloat16":
        return None
    known = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "4090": 165e12}
    name = torch.cuda.get_device_name()
    chip = next((peak for part, peak in known.items() if part in name), None)
    inner = sum(p.numel() for n, p in session.state.task.named_parameters() if "embedding" not in n)
    return None if chip is None else (6.0 * inner, chip)
