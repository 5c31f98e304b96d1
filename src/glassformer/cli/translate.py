"""`glassformer translate`: texts, a file or stdin, line by line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.common import (
    ADAPTER,
    COLUMN,
    DEVICE,
    ENCODING,
    JSON,
    QUANTIZE,
    Method,
    inputs,
    open_model,
    prose,
    write_predictions,
)  # fmt: skip
from glassformer.cli.console import Console
from glassformer.cli.generation_options import with_settings
from glassformer.data.readers.files import lines, read_lines, stop
from glassformer.data.table_files import Cells, DataTable, check_out, is_table, which_column
from glassformer.durable import write_whole
from glassformer.errors import ConfigError
from glassformer.generate.settings import TRANSLATION

if TYPE_CHECKING:
    from glassformer.generate.translate import Translation
    from glassformer.loaded import Model

GROUP = 512  # lines that are sorted by length together
PROGRESS_SECONDS = 5.0  # between lines of progress without a terminal

SOURCE = typer.Option(
    None, help="The language of the texts, for a model that has several: eng_Latn, en_XX, en."
)
TARGET = typer.Option(None, help="The language to translate into, for a model that has several.")
N_BEST = typer.Option(1, min=1, help="Translations per line, best first.")
SCORES = typer.Option(False, help="Add a column with the score.")
ALIGN = typer.Option(False, help="Add a column with the word alignment: 0-0 1-2.")


@with_settings("num_beams", "length_penalty", defaults=TRANSLATION)
def run(
    model: str = typer.Argument(
        help="A model folder, a name of `glassformer list`, or of the hub."
    ),
    texts: list[str] | None = typer.Argument(
        None, help="Texts; lines of stdin, if none is given, or -."
    ),
    file: Path | None = typer.Option(
        None, help="Translate the lines of this file, or --column; it may be compressed."
    ),
    column: str | None = COLUMN,
    out: Path | None = typer.Option(
        None, help="Write the translations to this file; with --column, the table with them."
    ),
    source: str | None = SOURCE,
    target: str | None = TARGET,
    n_best: int = N_BEST,
    scores: bool = SCORES,
    align: bool = ALIGN,
    encoding: str = ENCODING,
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    quantize: Method | None = QUANTIZE,
    as_json: bool = JSON,
    **settings: Any,
) -> None:
    """Translate line by line: number (with --n-best), score, text and alignment, between tabs.

    Nothing is cut off: a line that is too long for the model is translated sentence by sentence.
    --file x.csv --column text --out y.csv writes the table with the translation of each row.
    """
    texts = None if texts == ["-"] else texts
    if texts and file is not None:
        raise ConfigError("--file: there are texts, too: write one of them")
    table = _table(texts, file, column, out, encoding)
    num_beams = {**TRANSLATION, **settings}["num_beams"]
    if n_best > num_beams:
        raise ConfigError(f"--n-best {n_best}: write at most --num-beams, {num_beams}")
    from glassformer.generate.translate import notes

    options = {"source": source, "target": target, "n_best": n_best, "align": align, **settings}
    group = 1 if _is_interactive(texts, file) else GROUP
    noteworthy: list[Translation] = []
    output: list[str] = []
    cells: list[Cells] = []
    read = _read(texts, file, encoding) if table is None else table.texts
    translations = _translate(_open(model, device, quantize, adapter), read, group, options)
    for number, translation in enumerate(translations):
        if translation.broken or not translation.complete:
            noteworthy.append(translation)
        if table is not None and out is not None:
            cells.append(translation.cells(scores=scores))
            continue
        record = [json.dumps(_record(translation), ensure_ascii=False)] if as_json else None
        for line in record or _lines(translation, number, n_best, scores, align):
            if out is None:
                typer.echo(line)
            else:
                output.append(f"{line}\n")
    for note in notes(noteworthy):
        typer.echo(f"glassformer: {note}", err=True)
    if table is not None and out is not None:
        write_predictions(table, cells, out)
    elif out is not None:
        write_whole(out, "".join(output).encode())
        typer.echo(f"{out}: {len(output):,} lines")


def _table(
    texts: list[str] | None, file: Path | None, column: str | None, out: Path | None, encoding: str
) -> DataTable | None:
    """The table to translate a column of; None if lines are translated."""
    if column is not None:
        if out is not None:
            check_out(out, file)
        return inputs(texts, file, [column], encoding=encoding)
    if file is not None and is_table(file):
        raise which_column(file, encoding)
    return None


def _open(folder: str, device: str, quantize: Method | None, adapter: Path | None) -> Model:
    model = open_model(folder, device, adapter=adapter, quantize=quantize)
    model.able("translate")
    return model


def _is_interactive(texts: list[str] | None, file: Path | None) -> bool:
    """Does a user type the lines, and wait for each translation?"""
    return not texts and file is None and sys.stdin.isatty()


def _read(texts: list[str] | None, file: Path | None, encoding: str) -> Iterator[str]:
    if texts:
        return (line for text in texts for line in text.split("\n"))
    if file is None:
        numbered = lines(sys.stdin.buffer, "stdin")
    else:
        numbered = read_lines(file, stop, encoding)
    return (line for _, line in numbered)


def _translate(
    model: Model, texts: Iterable[str], group: int, options: dict[str, Any]
) -> Iterator[Translation]:
    """One translation after the other; progress goes to stderr."""
    from glassformer.generate.translate import translate

    tokenizer = model._tokenizer()
    rest, done, start = iter(texts), 0, time.monotonic()
    shown = start
    with Console(stderr=True).status("translating") as status:
        while lines_of_group := list(islice(rest, group)):
            yield from translate(
                model.task, tokenizer, lines_of_group, origin=model.origin, **options
            )
            done, now = done + len(lines_of_group), time.monotonic()
            line = f"{done:,} lines, {done / (now - start):,.1f} per second"
            status.update(line)
            if not status.console.is_terminal and now > shown + PROGRESS_SECONDS:
                typer.echo(line, err=True)
                shown = now


def _lines(
    translation: Translation, number: int, n_best: int, scores: bool, align: bool
) -> Iterator[str]:
    for ranked in (translation, *translation.others):
        columns = [f"{number}"] if n_best > 1 else []
        columns += [f"{ranked.score:.4f}"] if scores else []
        columns.append(prose(ranked.text))
        if align:
            columns.append("" if ranked.alignment is None else ranked.alignment.pharaoh())
        yield "\t".join(columns)


def _record(translation: Translation) -> dict[str, Any]:
    record: dict[str, Any] = {
        name: getattr(translation, name)
        for name in ("source", "text", "score", "source_tokens", "tokens", "parts", "complete")
    }
    if translation.alignment is not None:
        aligned = translation.alignment
        record["alignment"] = {
            "source": aligned.source,
            "target": aligned.target,
            "links": aligned.links(),
            "weights": [[round(w, 4) for w in row] for row in aligned.weights.tolist()],
        }
    if translation.others:
        record["others"] = [_record(other) for other in translation.others]
    return record
