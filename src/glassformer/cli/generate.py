"""`glassformer generate`: a model goes on from a prompt."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.common import DEVICE, INT8, Precision, open_model, prose, texts
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.generate.generation import Generation
    from glassformer.generate.job import GenerationJob

ESCAPES = {"\\n": "\n", "\\t": "\t"}  # what a shell does not turn into one character
EARLY: dict[str, bool | str] = {"false": False, "true": True, "never": "never"}


def run(
    model: str = typer.Argument(help="A model folder, a .gguf file, or a name of the hub."),
    prompt: str = typer.Argument(None, help="The text to go on from; - reads lines from stdin."),
    file: Path | None = typer.Option(None, help="Read the prompts from here, one a line."),
    max_new_tokens: int | None = typer.Option(None, help="The most to write; 20 if not given."),
    min_new_tokens: int | None = typer.Option(None, help="No end before so many."),
    stop: list[str] = typer.Option([], help=r"A text ends before this; \n is a new line."),
    do_sample: bool | None = typer.Option(None, help="Draw by chance, or always the best."),
    temperature: float | None = typer.Option(None, help="Below 1 the likely come more often."),
    top_k: int | None = typer.Option(None, help="Draw from the k best only."),
    top_p: float | None = typer.Option(None, help="From the best that make up p together."),
    min_p: float | None = typer.Option(None, help="From those p times as likely as the best."),
    seed: int | None = typer.Option(None, help="The same seed, the same text."),
    num_return_sequences: int | None = typer.Option(None, help="Texts for each prompt."),
    num_beams: int | None = typer.Option(None, help="Texts that are tried side by side."),
    length_penalty: float | None = typer.Option(None, help="Above 0 favours long texts."),
    early_stopping: str | None = typer.Option(None, help="Of beams: true, false or never."),
    repetition_penalty: float | None = typer.Option(None, help="Above 1: fewer repetitions."),
    no_repeat_ngram_size: int | None = typer.Option(None, help="No n tokens in a row twice."),
    bad_words: list[str] = typer.Option([], help="Never write this."),
    logprobs: bool = typer.Option(False, help="With --json: what the model thought of each token."),
    batch_size: int | None = typer.Option(None, help="Texts at once."),
    device: str = DEVICE,
    dtype: Precision | None = typer.Option(None, help="Precision; as it is if not given."),
    int8: bool = INT8,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Let a model write: go on from a prompt, one token after the other."""
    given: dict[str, Any] = {
        "max_new_tokens": max_new_tokens, "min_new_tokens": min_new_tokens, "do_sample": do_sample,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed,
        "num_return_sequences": num_return_sequences, "num_beams": num_beams,
        "length_penalty": length_penalty, "early_stopping": _early(early_stopping),
        "repetition_penalty": repetition_penalty, "no_repeat_ngram_size": no_repeat_ngram_size,
        "stop": tuple(map(_unescaped, stop)), "bad_words": tuple(bad_words), "logprobs": logprobs,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    prompts = texts(prompt, file)
    from glassformer.config import read
    from glassformer.generate.settings import Settings

    settings = read(Settings, given, "generate")  # a mistake is told before torch is imported
    from glassformer.generate.job import generate, prepare, stream

    loaded = open_model(model, device, dtype=dtype, int8=int8)
    writing = prepare(loaded.task, loaded.tokenizer, loaded.origin, prompts, given, batch_size)
    _tell_room(writing)
    several = len(prompts) * settings.num_return_sequences > 1 or settings.num_beams > 1
    if not as_json and not several:
        if sys.stdout.isatty():  # a reader sees where it begins; a pipe gets what is new
            typer.secho(_plain(prompts[0]), nl=False, dim=True)
        for piece in stream(writing):
            typer.echo(_plain(piece), nl=False)
        typer.echo()
        return
    _show(prompts, generate(writing), as_json)


def _tell_room(writing: GenerationJob) -> None:
    most, wanted = writing.task.backbone.config.max_length, writing.settings.max_new_tokens
    least = min(writing.settings.room(len(prompt), most) for prompt in writing.prompts)
    if least < wanted:
        typer.echo(
            f"glassformer: --max-new-tokens {wanted}: the model reads at most {most} tokens, "
            f"so a text ends after {least}",
            err=True,
        )


def _show(prompts: list[str], found: list[Generation], as_json: bool) -> None:
    each = len(found) // len(prompts)
    if as_json:
        rows = [
            {"prompt": prompts[i // each], "text": text.text, "ids": text.ids}
            | {"stopped": text.stopped, "score": text.score, "logprobs": text.logprobs}
            for i, text in enumerate(found)
        ]
        typer.echo(json.dumps({"texts": rows}, ensure_ascii=False))
        return
    for i, text in enumerate(found):
        if len(found) > 1:
            typer.echo(f"--- prompt {i // each + 1}, text {i % each + 1}")
        typer.echo(_plain(text.text))


def _early(word: str | None) -> bool | str | None:
    if word is not None and word not in EARLY:
        raise ConfigError(f"--early-stopping {word!r}: write true, false or never")
    return None if word is None else EARLY[word]


def _unescaped(text: str) -> str:
    for written, meant in ESCAPES.items():
        text = text.replace(written, meant)
    return text


def _plain(text: str) -> str:
    """Lines may end; nothing else may move the cursor."""
    return prose(text, "\n\t")
