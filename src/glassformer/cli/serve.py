"""`glassformer serve`: a model server for the clients of other servers."""

from __future__ import annotations

import logging
import signal
import sys
import warnings
from pathlib import Path

import typer

from glassformer.cli.common import DEVICE
from glassformer.cli.studio import names
from glassformer.errors import ConfigError, check_installed

HERE = ("127.0.0.1", "::1", "localhost")
# A decoding step on a GPU takes about a millisecond and releases Python's lock several times: the
# event loop must not keep the lock for the usual 5 milliseconds each time.
SWITCH_SECONDS = 0.0002


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
    from glassformer.asgi.requests import loopback_hosts
    from glassformer.asgi.server import listen, server
    from glassformer.distributed import resolve_device
    from glassformer.serve.keys import Keys, read_keys
    from glassformer.text.chat_sandbox import read_template

    known_keys = Keys([]) if keys is None else read_keys(keys)
    chat_template = None if template is None else read_template(template)
    with listen(port, host) as listening:
        from glassformer.serve.app import create_app
        from glassformer.serve.gate import JsonLines
        from glassformer.serve.host import Host, HostOptions
        from glassformer.serve.state import ServeState

        place = str(resolve_device(device, "--device"))
        known = dict(zip(names(models or []), models or [], strict=True))
        options = HostOptions(place, slots, queue_tokens, context)
        hosted = Host(known, models_folder, options)
        for name in known:
            hosted.load(name)
        _log_to_stderr(JsonLines())
        state = ServeState(hosted, known_keys, timeout, chat_template)
        hosts = None
        if host in HERE:
            hosts = loopback_hosts(port) | ({public_host} if public_host else set())
        app = create_app(state, hosts=hosts, log_text=log_text)
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        typer.echo(f"{url}    (press Ctrl-C to stop)")
        sys.stdout.flush()
        # uvicorn drains on these signals, then raises them again: then the process just ends.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        sys.setswitchinterval(SWITCH_SECONDS)
        warnings.simplefilter("ignore", UserWarning)  # clients choose that texts are truncated
        seconds = max(1, round(timeout))
        running = server(app, shutdown_seconds=seconds, on_exit=hosted.drain)
        running.run(sockets=[listening])


def _log_to_stderr(lines: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(lines)
    log = logging.getLogger("glassformer.serve")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
