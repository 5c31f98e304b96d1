"""`glassformer studio`: look inside models in the browser."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.common import ADAPTER, DEVICE, open_model
from glassformer.errors import ConfigError
from glassformer.pretrained import shipped, shipped_runs

if TYPE_CHECKING:
    from glassformer.studio.samples import ServedModel


def run(
    models: list[str] | None = typer.Argument(
        None,
        help="Model folders, run folders or names; by default all that ships with the package.",
    ),
    toys: bool = typer.Option(False, help="Also train and serve the lectures' toy models."),
    port: int = typer.Option(8642, min=1, max=65535, help="Port, on this machine only."),
    open_page: bool = typer.Option(True, "--open/--no-open", help="Open the page in a browser."),
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
) -> None:
    """Serve the studio: every head and every number of a model, in your browser.

    With --adapter it serves the model and the model with the adapter, to compare them.
    """
    if adapter is not None and len(models or ()) != 1:
        raise ConfigError(f"--adapter {adapter}: it belongs to one model: write one")
    from glassformer.asgi.server import HERE, listen, server

    with listen(port) as listening, contextlib.suppress(KeyboardInterrupt):
        from glassformer.studio.app import create_app
        from glassformer.studio.toys import toys as train_toys

        served = serve(models or ([] if toys else [*shipped(), *shipped_runs()]), device)
        if adapter is not None:
            served.append(with_adapter(served[0], adapter, device))
        if toys or not served:
            typer.echo("glassformer: training the lectures' toys …", err=True)
            served += train_toys()
        url = f"http://{HERE}:{port}/"
        app = create_app(served, port=port)
        typer.echo(f"{url}    (press Ctrl-C to stop)")
        if open_page and _has_display():
            webbrowser.open(url)
        server(app).run(sockets=[listening])


def serve(models: Sequence[str], device: str) -> list[ServedModel]:
    """Open the models; for a run folder, its result or its newest checkpoint."""
    from glassformer.studio.checkpoints import is_run, newest, step_of
    from glassformer.studio.samples import ServedModel
    from glassformer.tasks.quantize import check_exact

    paths = {model: shipped_runs().get(model, Path(model)) for model in models}
    runs = {model: path for model, path in paths.items() if is_run(path)}
    folders = [str(newest(runs[model])) if model in runs else model for model in models]
    opened = [open_model(folder, device) for folder in folders]
    for folder, loaded in zip(folders, opened, strict=True):
        check_exact(loaded.task, folder)
    steps = [
        step_of(Path(folder)) if model in runs else None
        for model, folder in zip(models, folders, strict=True)
    ]
    return [
        ServedModel(name, loaded, run=runs.get(model), step=step, folder=folder)
        for name, loaded, model, step, folder in zip(
            names(models), opened, models, steps, folders, strict=True
        )
    ]


def with_adapter(served: ServedModel, adapter: Path, device: str) -> ServedModel:
    """The same model with an adapter, to be compared with it."""
    from glassformer.studio.samples import ServedModel

    model = open_model(served.folder, device, adapter=adapter)
    parts = adapter.resolve().parts
    own = Path(*parts[-2 if parts[-1] == "adapter" else -1 :])  # that of a run is called so
    name = f"{served.name} + {own}"
    return ServedModel(name, model, folder=served.folder, adapter=str(adapter))


def names(models: Sequence[str]) -> list[str]:
    """The last parts of each path: as few as make the names unique, and never "model" alone."""
    parts = [Path(each).resolve().parts if Path(each).exists() else (each,) for each in models]
    labels = []
    for own in parts:
        others = [path for path in parts if path != own]
        count = 2 if own[-1] == "model" else 1
        while count < len(own) and any(path[-count:] == own[-count:] for path in others):
            count += 1
        labels.append(str(Path(*own[-count:])))
    return labels


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
