"""`glassformer embed`, `similarity` and `word`: embeddings and their cosines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.common import (
    ADAPTER,
    DEVICE,
    JSON,
    MODEL,
    QUANTIZE,
    TOP_K,
    Method,
    grid,
    listing,
    open_model,
    safe,
    texts,
    warnings_on_stderr,
)
from glassformer.cli.console import Console
from glassformer.cli.text_options import TextOptions, reads_texts
from glassformer.data.table_files import table_of, vector_cells, write_table
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

FEW = 4  # numbers of a vector that are shown
PROMPT_NAME = typer.Option(
    None, help="Which of the model's prompts to put before each text, such as query."
)
PROMPT = typer.Option(None, help="A text to put before each text.")
POOL = typer.Option(None, help="Pooling; the model's own, if not given.")


class Pool(StrEnum):
    """What --pool may be."""

    mean = "mean"
    first = "first"
    last = "last"
    max = "max"
    mean_sqrt_len = "mean_sqrt_len"
    weightedmean = "weightedmean"


@reads_texts
def run(
    options: TextOptions,
    pool: Pool | None = POOL,
    prompt_name: str | None = PROMPT_NAME,
    prompt: str | None = PROMPT,
    nearest: str | None = typer.Option(
        None, help="Show the texts that are most similar to this one."
    ),
    top_k: int = TOP_K,
) -> None:
    """Turn texts into vectors, or find those that are most similar to another text.

    --file x.csv --column text --out y.parquet writes the table with the vector of each row.
    """
    table, out = options.read(vectors=True), options.out
    loaded = options.load()

    def embed(texts: Sequence[str]) -> Tensor:
        return loaded.embed(texts, prompt_name=prompt_name, prompt=prompt, pool_by=pool).cpu()

    with warnings_on_stderr():
        vectors = table.apply(embed)
    if out is not None:
        cells = [None if v is None else vector_cells(v.tolist(), out) for v in vectors]
        write_table(table.with_cells(cells), out)
        size = next(len(vector) for vector in vectors if vector is not None)
        line = f"{out}: {len(vectors):,} vectors of {size:,} numbers"
        typer.echo(line, err=options.as_json or nearest is not None)
    if nearest is not None:
        with warnings_on_stderr():
            query = embed([nearest])[0]
        _show_nearest(table.texts, query, vectors, top_k, options.as_json)
    elif out is None and options.as_json:
        for text, vector in zip(table.texts, vectors, strict=True):
            row = {"text": text, "vector": None if vector is None else vector.tolist()}
            typer.echo(json.dumps(row, ensure_ascii=False))
    elif out is None:
        rows = [
            (*(("", "", "") if vector is None else _summary(vector)), line)
            for line, vector in zip(table.texts, vectors, strict=True)
        ]
        Console(highlight=False).print(listing(("size", "norm", "first numbers", "text"), rows))


def similarity(
    model: str = MODEL,
    inputs: list[str] | None = typer.Argument(
        None, metavar="texts", help="Texts; - reads lines from stdin."
    ),
    file: Path | None = typer.Option(None, help="Read more texts from this file, one per line."),
    pool: Pool | None = POOL,
    prompt_name: str | None = PROMPT_NAME,
    prompt: str | None = PROMPT,
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    quantize: Method | None = QUANTIZE,
    as_json: bool = JSON,
) -> None:
    """The cosine similarity of each text with each."""
    compared = _gathered(inputs, file)
    if len(compared) < 2:
        raise ConfigError("give at least two texts, or --file")
    loaded = open_model(model, device, adapter=adapter, quantize=quantize)
    full = [text for text in compared if text.strip()]
    with warnings_on_stderr():
        vectors = loaded.embed(full, prompt_name=prompt_name, prompt=prompt, pool_by=pool)
    cosines = iter(loaded.similarity(vectors, vectors).tolist())
    rows = [_spread(next(cosines) if text.strip() else None, compared) for text in compared]
    if as_json:
        typer.echo(json.dumps({"texts": compared, "cosines": rows}, ensure_ascii=False))
        return
    numbers = [str(i) for i in range(1, len(compared) + 1)]
    shown = [["" if cosine is None else cosine for cosine in row] for row in rows]
    named = [(i, *row, text) for i, row, text in zip(numbers, shown, compared, strict=True)]
    Console(highlight=False).print(listing(("", *numbers, "text"), named))


def word(
    model: str = MODEL,
    sentence: str = typer.Argument(help="A sentence."),
    word: str = typer.Argument(help="A word in it."),
    others: list[str] | None = typer.Argument(
        None, help="Other sentences with this word; - reads lines."
    ),
    file: Path | None = typer.Option(
        None, help="Read more sentences from this file, one per line."
    ),
    layer: int | None = typer.Option(
        None, help="The block, from 0; the model's output, if not given."
    ),
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    quantize: Method | None = QUANTIZE,
    as_json: bool = JSON,
) -> None:
    """The vector of a word in its sentence, and its cosine to the same word in others."""
    compared = _gathered(others, file)
    loaded = open_model(model, device, adapter=adapter, quantize=quantize)
    import torch

    vector = loaded.word(sentence, word, layer=layer)

    def cosines_of(texts: list[str]) -> list[float]:
        vectors = torch.stack([loaded.word(text, word, layer=layer) for text in texts])
        cosines: list[float] = loaded.similarity(vector[None], vectors)[0].tolist()
        return cosines

    cosines = table_of(compared).apply(cosines_of)
    if as_json:
        rows = [{"sentence": s, "cosine": c} for s, c in zip(compared, cosines, strict=True)]
        own = {"sentence": sentence, "word": word, "vector": vector.tolist()}
        typer.echo(json.dumps({**own, "others": rows}, ensure_ascii=False))
        return
    console = Console(highlight=False)
    size, norm, start = _summary(vector)
    summary = {"word": word, "sentence": sentence, "size": size, "norm": f"{norm:.4f}"}
    summary["first numbers"] = start
    console.print(grid({name: safe(value) for name, value in summary.items()}))
    if compared:
        pairs = [("" if c is None else c, text) for c, text in zip(cosines, compared, strict=True)]
        console.print("", listing(("cosine", "the same word in"), pairs), sep="\n")


def _spread(cosines: list[float] | None, texts: Sequence[str]) -> list[float | None]:
    """The cosines to all texts: none to an empty one, and none of an empty one."""
    rest = iter(cosines or ())
    return [next(rest, None) if text.strip() else None for text in texts]


def _gathered(inputs: list[str] | None, file: Path | None) -> list[str]:
    """All texts of the arguments, with the lines of stdin for -, and those of the file."""
    lines = [line for text in inputs or () for line in texts(text, None)]
    return lines if file is None else [*lines, *texts(None, file)]


def _summary(vector: Tensor) -> tuple[str, float, str]:
    start = " ".join(f"{number:.3f}" for number in vector[:FEW].tolist())
    return f"{len(vector):,}", float(vector.norm()), f"{start} …"


def _show_nearest(
    texts: Sequence[str], query: Tensor, vectors: Sequence[Tensor | None], top_k: int, as_json: bool
) -> None:
    import torch

    from glassformer.inference import nearest

    known = {place: vector for place, vector in enumerate(vectors) if vector is not None}
    places, best = list(known), nearest(query, torch.stack(list(known.values())), top_k)
    rows = [(cosine, texts[places[i]], places[i] + 1) for i, cosine in best]
    if as_json:
        for cosine, text, number in rows:
            row = {"text": text, "number": number, "cosine": cosine}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    table = listing(("cosine", "number", "text"), [(c, str(n), text) for c, text, n in rows])
    Console(highlight=False).print(table)
