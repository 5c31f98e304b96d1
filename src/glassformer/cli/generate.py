"""`glassformer generate`: continue a prompt."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.common import (
    ADAPTER,
    DEVICE,
    QUANTIZE,
    Method,
    Precision,
    open_model,
    prose,
    texts,
)
from glassformer.cli.generation_options import with_settings
from glassformer.data.table_files import is_empty, table_of

if TYPE_CHECKING:
    from glassformer.generate.generation import Generation

ESCAPES = {"\\n": "\n", "\\t": "\t"}  # a shell does not turn these into one character


@with_settings()
def run(
    model: str = typer.Argument(help="A model folder, a .gguf file, or a name of the hub."),
    prompt: str = typer.Argument(None, help="The text to continue; - reads lines from stdin."),
    file: Path | None = typer.Option(None, help="Read the prompts from this file, one per line."),
    batch_size: int | None = typer.Option(None, help="Texts that are generated at once."),
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    dtype: Precision | None = typer.Option(None, help="Precision; the model's, if not given."),
    quantize: Method | None = QUANTIZE,
    draft: str | None = typer.Option(
        None,
        help="Guess the next tokens, for speed: `prompt` looks up the text itself; or a "
        "smaller model with the same tokenizer. The text is the same.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
    **settings: Any,
) -> None:
    r"""Generate text: continue a prompt, token by token. In --stop, \n is a new line."""
    unescape_stop(settings)
    prompts = table_of(texts(prompt, file))
    from glassformer.generate.settings import Settings
    from glassformer.strict import read

    checked = read(Settings, settings, "generate")  # reported before torch is imported
    from glassformer.generate.job import generate, notes, prepare, stream

    loaded = open_model(model, device, adapter=adapter, dtype=dtype, quantize=quantize)
    full = [text for text in prompts.texts if not is_empty(text)]
    guesser = draft if draft in (None, "prompt") else open_model(draft, device, dtype=dtype)
    job = prepare(
        loaded.task, loaded.tokenizer, loaded.origin, full, settings, batch_size,
        draft=loaded.draft_task(guesser),
    )  # fmt: skip
    for note in notes(job):
        typer.echo(f"glassformer: {note}", err=True)
    several = len(prompts.texts) * checked.num_return_sequences > 1 or checked.num_beams > 1
    if not as_json and not several:
        if sys.stdout.isatty():  # a reader sees where it begins; a pipe gets the new text only
            typer.secho(_plain(full[0]), nl=False, dim=True)
        for piece in stream(job):
            typer.echo(_plain(piece), nl=False)
        typer.echo()
        return
    count, texts_of = checked.num_return_sequences, generate(job)
    starts = range(0, len(texts_of), count)
    samples = prompts.apply(lambda _: [texts_of[start : start + count] for start in starts])
    _show(prompts.texts, samples, job.settings.seed if checked.samples else None, as_json)


def _show(
    prompts: list[str], samples: list[list[Generation] | None], seed: int | None, as_json: bool
) -> None:
    """All samples of each prompt; of an empty one there is none, which keeps its place."""
    from glassformer.generate.generation import Generation

    if as_json:
        rows = [
            {"prompt": prompt, "text": text.text, "ids": text.ids}
            | {"stopped": text.stopped, "score": text.score, "logprobs": text.logprobs}
            for prompt, generations in zip(prompts, samples, strict=True)
            for text in generations or [Generation((), "end")]
        ]
        used = {} if seed is None else {"seed": seed}
        typer.echo(json.dumps({**used, "texts": rows}, ensure_ascii=False))
        return
    for number, generations in enumerate(samples, 1):
        for sample, text in enumerate(generations or [Generation((), "end")], 1):
            typer.echo(f"--- prompt {number}, text {sample}")
            typer.echo(_plain(text.text))


def unescape_stop(settings: dict[str, Any]) -> None:
    """Replace the escapes in --stop, in place."""
    if "stop" in settings:
        settings["stop"] = tuple(map(_unescaped, settings["stop"]))


def _unescaped(text: str) -> str:
    for escape, character in ESCAPES.items():
        text = text.replace(escape, character)
    return text


def _plain(text: str) -> str:
    """Line ends and tabs stay; nothing else may move the cursor."""
    return prose(text, "\n\t")
