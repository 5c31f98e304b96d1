"""`glassformer embed`, `similarity` and `word`: embeddings and their cosines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.common import (
    DEVICE,
    JSON,
    MODEL,
    TOP_K,
    grid,
    listing,
    open_model,
    safe,
    texts,
    warnings_on_stderr,
)
from glassformer.cli.console import Console
from glassformer.durable import write_whole
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

FEW = 4  # numbers of a vector that are shown


class Pool(StrEnum):
    """What --pool may be."""

    mean = "mean"
    first = "first"
    last = "last"


def run(
    model: str = MODEL,
    text: str | None = typer.Argument(None, help="A text; - reads lines from stdin."),
    file: Path | None = typer.Option(None, help="Read the texts from this file, one per line."),
    pool: Pool | None = typer.Option(None, help="Pooling; the model's own, if not given."),
    nearest: str | None = typer.Option(
        None, help="Show the texts that are most similar to this one."
    ),
    top_k: int = TOP_K,
    out: Path | None = typer.Option(None, help="Write the vectors: .npy, .csv or .jsonl."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Turn texts into vectors, or find those that are most similar to another text."""
    write = None if out is None else _writer(out)
    inputs = texts(text, file)
    loaded = open_model(model, device)
    with warnings_on_stderr():
        vectors = loaded.embed(inputs, pool_by=pool).cpu()
    if out is not None and write is not None:
        write_whole(out, write(inputs, vectors))
        line = f"{out}: {len(inputs):,} vectors of {vectors.shape[1]:,} numbers"
        typer.echo(line, err=as_json or nearest is not None)
    if nearest is not None:
        with warnings_on_stderr():
            query = loaded.embed([nearest], pool_by=pool)[0].cpu()
        _show_nearest(inputs, query, vectors, top_k, as_json)
    elif out is None and as_json:
        typer.echo(_jsonl(inputs, vectors).decode(), nl=False)
    elif out is None:
        rows = [(*_summary(vector), line) for line, vector in zip(inputs, vectors, strict=True)]
        Console(highlight=False).print(listing(("size", "norm", "first numbers", "text"), rows))


def similarity(
    model: str = MODEL,
    inputs: list[str] | None = typer.Argument(
        None, metavar="texts", help="Texts; - reads lines from stdin."
    ),
    file: Path | None = typer.Option(None, help="Read more texts from this file, one per line."),
    pool: Pool | None = typer.Option(None, help="Pooling; the model's own, if not given."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """The cosine similarity of each text with each."""
    compared = _gathered(inputs, file)
    if len(compared) < 2:
        raise ConfigError("give at least two texts, or --file")
    loaded = open_model(model, device)
    with warnings_on_stderr():
        vectors = loaded.embed(compared, pool_by=pool)
    rows = loaded.similarity(vectors, vectors).tolist()
    if as_json:
        typer.echo(json.dumps({"texts": compared, "cosines": rows}, ensure_ascii=False))
        return
    numbers = [str(i) for i in range(1, len(compared) + 1)]
    named = [(i, *row, text) for i, row, text in zip(numbers, rows, compared, strict=True)]
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
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """The vector of a word in its sentence, and its cosine to the same word in others."""
    compared = _gathered(others, file)
    loaded = open_model(model, device)
    import torch

    vectors = torch.stack([loaded.word(text, word, layer=layer) for text in (sentence, *compared)])
    cosines = loaded.similarity(vectors[:1], vectors[1:])[0].tolist()
    if as_json:
        rows = [{"sentence": s, "cosine": c} for s, c in zip(compared, cosines, strict=True)]
        own = {"sentence": sentence, "word": word, "vector": vectors[0].tolist()}
        typer.echo(json.dumps({**own, "others": rows}, ensure_ascii=False))
        return
    console = Console(highlight=False)
    size, norm, start = _summary(vectors[0])
    summary = {"word": word, "sentence": sentence, "size": size, "norm": f"{norm:.4f}"}
    summary["first numbers"] = start
    console.print(grid({name: safe(value) for name, value in summary.items()}))
    if compared:
        pairs = list(zip(cosines, compared, strict=True))
        console.print("", listing(("cosine", "the same word in"), pairs), sep="\n")


def _gathered(inputs: list[str] | None, file: Path | None) -> list[str]:
    """All texts of the arguments, with the lines of stdin for -, and those of the file."""
    lines = [line for text in inputs or () for line in texts(text, None)]
    return lines if file is None else [*lines, *texts(None, file)]


def _summary(vector: Tensor) -> tuple[str, float, str]:
    start = " ".join(f"{number:.3f}" for number in vector[:FEW].tolist())
    return f"{len(vector):,}", float(vector.norm()), f"{start} …"


def _show_nearest(
    inputs: Sequence[str], query: Tensor, vectors: Tensor, top_k: int, as_json: bool
) -> None:
    from glassformer.inference import nearest

    rows = [(cosine, inputs[place], place + 1) for place, cosine in nearest(query, vectors, top_k)]
    if as_json:
        for cosine, text, number in rows:
            row = {"text": text, "number": number, "cosine": cosine}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    table = listing(("cosine", "number", "text"), [(c, str(n), text) for c, text, n in rows])
    Console(highlight=False).print(table)


def _writer(out: Path) -> Callable[[Sequence[str], Tensor], bytes]:
    writers = {".npy": _npy, ".csv": _csv, ".jsonl": _jsonl}
    if out.suffix not in writers:
        raise ConfigError(f"--out {out}: write a name that ends in {', '.join(writers)}")
    return writers[out.suffix]


def _npy(inputs: Sequence[str], vectors: Tensor) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, vectors.float().numpy(), allow_pickle=False)
    return file.getvalue()


def _csv(inputs: Sequence[str], vectors: Tensor) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["text", *range(vectors.shape[1])])
    writer.writerows([text, *row] for text, row in zip(inputs, vectors.tolist(), strict=True))
    return file.getvalue().encode()


def _jsonl(inputs: Sequence[str], vectors: Tensor) -> bytes:
    rows = zip(inputs, vectors.tolist(), strict=True)
    lines = (json.dumps({"text": a, "vector": b}, ensure_ascii=False) for a, b in rows)
    return "".join(f"{line}\n" for line in lines).encode()
