"""`glassformer answer`: extract the answer to a question from a text."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import typer

from glassformer.cli.common import (
    ADAPTER,
    DEVICE,
    ENCODING,
    JSON,
    MODEL,
    OUT,
    QUANTIZE,
    Method,
    listing,
    open_model,
    safe,
    texts,
    write_predictions,
)  # fmt: skip
from glassformer.cli.console import Console
from glassformer.data.table_files import (
    DataTable,
    check_out,
    is_table,
    read_table,
    table_of,
    which_column,
)
from glassformer.errors import ConfigError


def run(
    model: str = MODEL,
    question: str | None = typer.Argument(None, help="The question."),
    context: str | None = typer.Argument(None, help="The text to search; - reads it from stdin."),
    file: Path | None = typer.Option(
        None, help="Read the text to search from this file, or a table of texts: --column."
    ),
    column: list[str] | None = typer.Option(
        None, help="The column of a table to search. Without a question, write --column twice: "
        "first the questions, then the texts.",
    ),
    top_k: int = typer.Option(1, min=1, help="Number of answers, best first."),
    no_answer: bool = typer.Option(False, "--no-answer", help="Allow that the text has no answer."),
    threshold: float = typer.Option(0.0, help="How far its logits must exceed the best answer's."),
    max_tokens: int = typer.Option(30, min=1, help="Longest answer, in tokens."),
    overlap: int | None = typer.Option(None, min=0, help="Tokens that neighbouring windows share."),
    out: Path | None = OUT,
    encoding: str = ENCODING,
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    quantize: Method | None = QUANTIZE,
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """Find the answer to a question in a text, of any length.

    --file x.csv --column question --column context --out y.csv writes the table with the best
    answer of each row.
    """
    if out is not None:
        check_out(out, file)
    table = _questions(question, context, file, column, encoding)
    from glassformer.inference import answer

    task, tokenizer = open_model(model, device, adapter=adapter, quantize=quantize).able("answer")
    results = table.apply(
        lambda pairs: answer(
            task, tokenizer, pairs, top_k=top_k, no_answer=no_answer, threshold=threshold,
            max_tokens=max_tokens, overlap=overlap,
        )
    )  # fmt: skip
    if out is not None:
        cells = [answers[0].cells() if answers else None for answers in results]
        write_predictions(table, cells, out)
        return
    console = Console(highlight=False)
    for (asked, _), answers in zip(table.texts, results, strict=True):
        if as_json:
            for each in answers or ():
                typer.echo(json.dumps({"question": asked, **asdict(each)}, ensure_ascii=False))
            continue
        rows = [(a.text or "(no answer)", a.score, f"{a.start}–{a.end}") for a in answers or ()]
        if len(results) > 1:
            console.print(safe(asked), style="bold", markup=False, soft_wrap=True)
        console.print(listing(("answer", "score", "characters"), rows))


def _questions(
    question: str | None, context: str | None, file: Path | None, columns: list[str] | None,
    encoding: str,
) -> DataTable:  # fmt: skip
    if columns and file is not None and context is None:
        if len(columns) != (2 if question is None else 1):
            raise ConfigError(
                "--column: write it once, with a question, or twice: the questions, then the texts"
            )
        table = read_table(file, columns, encoding)
        if question is None:
            return table
        return replace(table, texts=[(question, text) for text in table.texts])
    if columns:
        raise ConfigError(f"--column {columns[0]} is for a table: write --file, and no text")
    if question is None:
        raise ConfigError("give a question and a text, or a table with both: --file, --column")
    if file is not None and is_table(file):
        raise which_column(file, encoding)
    (passage,) = texts(context, file, single_document=True, encoding=encoding)
    return table_of([(question, passage)], ("question", "context"))
