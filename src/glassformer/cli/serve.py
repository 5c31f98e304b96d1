"""`glassformer serve`: a model server for the clients of other servers."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from glassformer.cli.common import DEVICE
from glassformer.cli.studio import names
from glassformer.errors import ConfigError, check_installed

HERE = ("127.0.0.1", "::1", "localhost")


def run(
    models: list[str] | None = typer.Argument(
        None, help="Model folders, or names of `glassformer list`."
    ),
    models_folder: Path | None = typer.Option(
        None, "--models", help="Each model folder below this one may be loaded by name, too."
    ),
    host: str = typer.Option("127.0.0.1", help="The address to listen on; others need --keys."),
    port: int = typer.Option(8000, min=1, max=65535, help="The port to listen on."),
    public_host: str | None = typer.Option(
        None, help="The name under which a proxy offers the server, such as models.example.org."
    ),
    keys: Path | None = typer.Option(None, help="A TOML file with the keys of the clients."),
    slots: int | None = typer.Option(
        None, min=1, max=4096, help="Texts that are generated at once; 16 on a CPU, 64 on a GPU."
    ),
    context: int | None = typer.Option(
        None, min=1, help="The most tokens of a generated text, the prompt included; 4096."
    ),
    queue_tokens: int | None = typer.Option(
        None, min=1, help="The most tokens that wait for a model; more are refused with 429."
    ),
    timeout: float = typer.Option(120.0, min=0.1, help="The most seconds of a request."),
    template: Path | None = typer.Option(
        None, help="A Jinja template for chats, run in a sandbox; the model's format, by default."
    ),
    workers: int = typer.Option(
        1, min=1, max=256, help="Processes, each with all models and queues of its own."
    ),
    log_text: bool = typer.Option(False, "--log-text", help="Also log the texts of requests."),
    device: str = DEVICE,
) -> None:
    """Serve models over HTTP to the clients of OpenAI, TEI, Jina and LibreTranslate."""
    check_installed("glassformer serve", "serve", "prometheus_client")
    if not models and models_folder is None:
        raise ConfigError("write at least one model, such as gf-encoder, or --models FOLDER")
    if models_folder is not None and not models_folder.is_dir():
        raise ConfigError(f"--models {models_folder}: no such folder: write one that exists")
    if host not in HERE and keys is None:
        raise ConfigError(f"--host {host}: other machines reach it: write --keys FILE, too")
    if workers > 1 and models_folder is not None:
        raise ConfigError(
            f"--models {models_folder}: with --workers no models are loaded by name: write them"
        )
    from glassformer.asgi.requests import loopback_hosts
    from glassformer.asgi.server import listen
    from glassformer.serve.keys import Keys, read_keys
    from glassformer.serve.process import ServeOptions, serve
    from glassformer.text.chat_sandbox import read_template

    hosts = None
    if host in HERE:
        hosts = loopback_hosts(port) | ({public_host} if public_host else set())
    options = ServeOptions(
        models=dict(zip(names(models or []), models or [], strict=True)), root=models_folder,
        device=device, slots=slots, queue_tokens=queue_tokens, context=context,
        keys=Keys([]) if keys is None else read_keys(keys), hosts=hosts, seconds=timeout,
        template=None if template is None else read_template(template), log_text=log_text,
        workers=workers,
    )  # fmt: skip

    def on_start() -> None:
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        typer.echo(f"{url}    (press Ctrl-C to stop)")
        sys.stdout.flush()

    with listen(port, host) as listening:
        if workers == 1:
            serve(options, listening, on_start)
            return
        from glassformer.serve.logs import log_to_stderr
        from glassformer.serve.workers import Supervisor

        log_to_stderr()
        Supervisor(options, listening).run(on_start)
