"""`glassformer translate`: texts, a file or what comes from stdin, line by line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from glassformer.cli.common import DEVICE, INT8, JSON, open_model, prose
from glassformer.data.readers.files import lines, read_lines
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError

if TYPE_CHECKING:
    from glassformer.generate.translate import Translation
    from glassformer.loaded import Model

AT_ONCE = 512  # lines that are sorted by length together
EVERY = 5.0  # seconds between lines where there is no terminal


def run(
    model: str = typer.Argument(help="The model folder."),
    texts: list[str] | None = typer.Argument(
        None, help="Texts; if not given, or -, lines of stdin."
    ),
    file: Path | None = typer.Option(None, help="Translate the lines of a file, packed or not."),
    out: Path | None = typer.Option(None, help="Write the lines to this file."),
    num_beams: int = typer.Option(4, min=1, help="Translations that are tried side by side."),
    length_penalty: float = typer.Option(1.0, help="Above 0 favours long translations."),
    n_best: int = typer.Option(1, min=1, help="So many translations of each line, best first."),
    scores: bool = typer.Option(False, help="A column with the score."),
    align: bool = typer.Option(False, help="A column with aligned words: 0-0 1-2, from 0."),
    device: str = DEVICE,
    int8: bool = INT8,
    as_json: bool = JSON,
) -> None:
    """Translate. A line in, a line out: number (with --n-best), score, text, alignment, by tabs.

    Nothing is cut: what is too long for the model is translated sentence by sentence.
    """
    texts = None if texts == ["-"] else texts
    if texts and file is not None:
        raise ConfigError("--file: texts are given as well: write one of them")
    if n_best > num_beams:
        raise ConfigError(f"--n-best {n_best}: with --num-beams {num_beams} there are not so many")
    from glassformer.generate.translate import notes

    search = {
        "num_beams": num_beams, "length_penalty": length_penalty, "n_best": n_best, "align": align,
    }  # fmt: skip
    at_once = 1 if _typed(texts, file) else AT_ONCE
    odd: list[Translation] = []
    written: list[str] = []
    found = _all(_open(model, device, int8), _read(texts, file), at_once, search)
    for number, each in enumerate(found):
        if each.broken or not each.complete:
            odd.append(each)
        facts = [json.dumps(_facts(each), ensure_ascii=False)] if as_json else None
        for line in facts or _lines(each, number, n_best, scores, align):
            if out is None:
                typer.echo(line)
            else:
                written.append(f"{line}\n")
    for note in notes(odd):
        typer.echo(f"glassformer: {note}", err=True)
    if out is not None:
        write_whole(out, "".join(written).encode())
        typer.echo(f"{out}: {len(written):,} lines")


def _open(folder: str, device: str, int8: bool) -> Model:
    model = open_model(folder, device, int8=int8)
    if model.task.spec.kind != "translation":
        raise InputError(f"{folder}: this model is for {model.task.spec.kind}: it cannot translate")
    return model


def _typed(texts: list[str] | None, file: Path | None) -> bool:
    """Somebody types, and waits for each line."""
    return not texts and file is None and sys.stdin.isatty()


def _read(texts: list[str] | None, file: Path | None) -> Iterator[str]:
    if texts:
        return (line for text in texts for line in text.split("\n"))
    found = lines(sys.stdin.buffer, "stdin") if file is None else read_lines(file)
    return (line for _, line in found)


def _all(
    model: Model, texts: Iterable[str], at_once: int, search: dict[str, Any]
) -> Iterator[Translation]:
    """One after the other; how far it is goes to stderr."""
    from glassformer.generate.translate import translate

    tokenizer = model._tokenizer()
    rest, done, began = iter(texts), 0, time.monotonic()
    told = began
    with Console(stderr=True).status("translating") as status:
        while group := list(islice(rest, at_once)):
            yield from translate(model.task, tokenizer, group, origin=model.origin, **search)
            done, now = done + len(group), time.monotonic()
            line = f"{done:,} lines, {done / (now - began):,.1f} a second"
            status.update(line)
            if not status.console.is_terminal and now > told + EVERY:
                typer.echo(line, err=True)
                told = now


def _lines(
    found: Translation, number: int, n_best: int, scores: bool, align: bool
) -> Iterator[str]:
    for each in (found, *found.others):
        columns = [f"{number}"] if n_best > 1 else []
        columns += [f"{each.score:.4f}"] if scores else []
        columns.append(prose(each.text))
        if align:
            columns.append("" if each.alignment is None else each.alignment.pharaoh())
        yield "\t".join(columns)


def _facts(found: Translation) -> dict[str, Any]:
    facts: dict[str, Any] = {
        name: getattr(found, name)
        for name in ("source", "text", "score", "source_tokens", "tokens", "parts", "complete")
    }
    if found.alignment is not None:
        aligned = found.alignment
        facts["alignment"] = {
            "source": aligned.source,
            "target": aligned.target,
            "links": aligned.links(),
            "weights": [[round(w, 4) for w in row] for row in aligned.weights.tolist()],
        }
    if found.others:
        facts["others"] = [_facts(each) for each in found.others]
    return facts
