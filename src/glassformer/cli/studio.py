"""`glassformer studio`: look inside models, in the browser."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.common import DEVICE, open_model
from glassformer.errors import ConfigError
from glassformer.pretrained import shipped

if TYPE_CHECKING:
    from glassformer.studio.samples import ServedModel

HERE = "127.0.0.1"  # and nowhere else: there is no password
PATIENCE = 2  # seconds that Ctrl-C waits for a client that has sent half a request


def run(
    models: list[str] | None = typer.Argument(
        None,
        help="Folders of models or of runs, or names; if none, all that come with the package.",
    ),
    toys: bool = typer.Option(False, help="Also the lectures' toys, trained here and now."),
    port: int = typer.Option(8642, min=1, max=65535, help="Where to serve, on this machine only."),
    open_page: bool = typer.Option(True, "--open/--no-open", help="Open the page in a browser."),
    device: str = DEVICE,
) -> None:
    """Serve the studio: every head and every number of a model, on a page of your browser."""
    with _listen(port) as listening, contextlib.suppress(KeyboardInterrupt):
        import uvicorn

        from glassformer.studio.app import create_app
        from glassformer.studio.toys import toys as trained

        served = serve(models or ([] if toys else list(shipped())), device)
        if toys or not served:
            typer.echo("glassformer: training the lectures' toys …", err=True)
            served += trained()
        url = f"http://{HERE}:{port}/"
        app = create_app(served, port=port)
        typer.echo(f"{url}    (Ctrl-C ends it)")
        if open_page and _has_display():
            webbrowser.open(url)
        config = uvicorn.Config(
            app, log_level="warning", server_header=False, ws="none",
            timeout_graceful_shutdown=PATIENCE,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[listening])


def serve(models: Sequence[str], device: str) -> list[ServedModel]:
    """Each model opened; of a run, its result or its newest checkpoint."""
    from glassformer.studio.checkpoints import is_run, newest, step_of
    from glassformer.studio.samples import ServedModel

    runs = {each: Path(each) for each in models if is_run(Path(each))}
    folders = [str(newest(runs[each])) if each in runs else each for each in models]
    opened = [open_model(each, device) for each in folders]
    steps = [
        step_of(Path(at)) if each in runs else None
        for each, at in zip(models, folders, strict=True)
    ]
    return [
        ServedModel(name, model, run=runs.get(each), step=step, folder=folder)
        for name, model, each, step, folder in zip(
            names(models), opened, models, steps, folders, strict=True
        )
    ]


def _listen(port: int) -> socket.socket:
    """Taken first: nobody should wait for a model and then hear that there is no port."""
    # With its protocol named, asyncio sends small answers at once: they waited 40 ms.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    # On Windows SO_REUSEADDR would share a port that is taken.
    alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
    listening.setsockopt(socket.SOL_SOCKET, alone, 1)
    try:
        listening.bind((HERE, port))
        listening.listen()
    except OSError as error:
        listening.close()
        with socket.socket() as other:
            other.bind((HERE, 0))
            free = other.getsockname()[1]
        raise ConfigError(f"--port {port}: {error.strerror}: write --port {free}") from None
    return listening


def names(models: Sequence[str]) -> list[str]:
    """The last parts of each path: as few as tell them apart, and never "model" alone."""
    parts = [Path(each).resolve().parts if Path(each).exists() else (each,) for each in models]
    found = []
    for own in parts:
        others = [each for each in parts if each != own]
        count = 2 if own[-1] == "model" else 1
        while count < len(own) and any(each[-count:] == own[-count:] for each in others):
            count += 1
        found.append(str(Path(*own[-count:])))
    return found


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
