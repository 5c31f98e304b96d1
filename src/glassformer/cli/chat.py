"""`glassformer chat`: talk to a model in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.common import ADAPTER, DEVICE, QUANTIZE, Method, Precision, open_model, prose
from glassformer.cli.generation_options import with_settings
from glassformer.errors import InputError
from glassformer.text.chat_sandbox import read_template

if TYPE_CHECKING:
    from glassformer.loaded import Model

HELP = "/reset clears the history, /exit ends the chat."


@with_settings(defaults={"max_new_tokens": 512})
def run(
    model: str = typer.Argument(help="A model folder, a .gguf file, or a name of the hub."),
    system: str | None = typer.Option(None, help="A system message: how the model should answer."),
    template: Path | None = typer.Option(
        None, help="A Jinja template, if the model's own is not known; it runs in a sandbox."
    ),
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    dtype: Precision | None = typer.Option(None, help="Precision; the model's, if not given."),
    quantize: Method | None = QUANTIZE,
    as_json: bool = typer.Option(False, "--json", help="Print JSON, one object per answer."),
    **settings: Any,
) -> None:
    """Chat with a model, line by line. /reset clears the history, /exit ends the chat."""
    text = None if template is None else read_template(template)
    loaded = open_model(model, device, adapter=adapter, dtype=dtype, quantize=quantize)
    start = [] if system is None else [{"role": "system", "content": system}]
    messages = list(start)
    if sys.stdin.isatty():
        typer.secho(HELP, dim=True, err=True)
    for line in lines():
        if line == "/reset":
            messages = list(start)
            continue
        if line == "/exit":
            return
        asked = [*messages, {"role": "user", "content": line}]
        try:
            answer = reply(loaded, asked, text, settings, as_json)
        except InputError as error:
            if not sys.stdin.isatty():
                raise
            typer.echo(f"glassformer: {error} (/reset clears the history)", err=True)
            continue
        messages = [*asked, {"role": "assistant", "content": answer}]


def lines() -> Iterator[str]:
    """What the user writes, line by line; without empty ones."""
    while True:
        if sys.stdin.isatty():
            typer.secho("> ", nl=False, bold=True, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def reply(
    model: Model, messages: list[dict[str, str]], template: str | None, settings: Any, as_json: bool
) -> str:
    """Print the answer as it is generated, and the number of tokens; the answer."""
    from glassformer.generate.chat import prepare_chat
    from glassformer.generate.job import stream

    task, tokenizer = model.able("generate")
    job = prepare_chat(task, tokenizer, model.origin, messages, settings, template)
    pieces = []
    for piece in stream(job):
        pieces.append(piece)
        if not as_json:
            typer.echo(prose(piece, "\n\t"), nl=False)
    answer = "".join(pieces)
    read, written = len(job.prompts[0]), len(tokenizer.ids([answer])[0])
    if as_json:
        row = {"text": answer, "prompt_tokens": read, "answer_tokens": written}
        typer.echo(json.dumps(row, ensure_ascii=False))
        return answer
    typer.echo()
    most = model.config.max_length
    typer.secho(f"{read} + {written} of {most:,} tokens", dim=True, err=True)
    return answer
