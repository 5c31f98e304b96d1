"""`glassformer embed`, `similarity` and `word`: vectors, and how alike they are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from glassformer.cli.common import (
    DEVICE,
    JSON,
    MODEL,
    TOP_K,
    grid,
    listing,
    open_model,
    safe,
    telling,
    texts,
)
from glassformer.durable import write_whole
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

FEW = 4  # numbers of a vector that a table shows


class Pool(StrEnum):
    mean = "mean"
    first = "first"
    last = "last"


def run(
    model: str = MODEL,
    text: str | None = typer.Argument(None, help="A text; - reads lines from stdin."),
    file: Path | None = typer.Option(None, help="Read the texts from here, one a line."),
    pool: Pool | None = typer.Option(None, help="Which vector; as the model says if not given."),
    nearest: str | None = typer.Option(None, help="Show the texts that are most like this one."),
    top_k: int = TOP_K,
    out: Path | None = typer.Option(None, help="Write the vectors: .npy, .csv or .jsonl."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Turn texts into vectors, or find those that are most like another text."""
    write = None if out is None else _writer(out)
    given = texts(text, file)
    loaded = open_model(model, device)
    with telling():
        vectors = loaded.embed(given, pool_by=pool).cpu()
    if out is not None and write is not None:
        write_whole(out, write(given, vectors))
        told = f"{out}: {len(given):,} vectors of {vectors.shape[1]:,} numbers"
        typer.echo(told, err=as_json or nearest is not None)
    if nearest is not None:
        with telling():
            query = loaded.embed([nearest], pool_by=pool)[0].cpu()
        _show_nearest(given, query, vectors, top_k, as_json)
    elif out is None and as_json:
        typer.echo(_jsonl(given, vectors).decode(), nl=False)
    elif out is None:
        rows = [(*_summary(vector), said) for said, vector in zip(given, vectors, strict=True)]
        Console(highlight=False).print(listing(("size", "norm", "begins with", "text"), rows))


def similarity(
    model: str = MODEL,
    given: list[str] | None = typer.Argument(None, metavar="texts", help="Texts; - reads lines."),
    file: Path | None = typer.Option(None, help="More texts, one a line."),
    pool: Pool | None = typer.Option(None, help="Which vector; as the model says if not given."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Compare texts, each with each: the cosines of their vectors."""
    wanted = _gathered(given, file)
    if len(wanted) < 2:
        raise ConfigError("give at least two texts, or --file")
    loaded = open_model(model, device)
    with telling():
        vectors = loaded.embed(wanted, pool_by=pool)
    rows = loaded.similarity(vectors, vectors).tolist()
    if as_json:
        typer.echo(json.dumps({"texts": wanted, "cosines": rows}, ensure_ascii=False))
        return
    numbers = [str(i) for i in range(1, len(wanted) + 1)]
    named = [(i, *row, text) for i, row, text in zip(numbers, rows, wanted, strict=True)]
    Console(highlight=False).print(listing(("", *numbers, "text"), named))


def word(
    model: str = MODEL,
    sentence: str = typer.Argument(help="A sentence."),
    word: str = typer.Argument(help="A word of it."),
    others: list[str] | None = typer.Argument(None, help="Others with this word; - reads lines."),
    file: Path | None = typer.Option(None, help="More of them, one a line."),
    layer: int | None = typer.Option(None, help="After this block, from 0; the last if not given."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """The vector of a word in its sentence, and how like it is to the same word in others."""
    compared = _gathered(others, file)
    loaded = open_model(model, device)
    import torch

    vectors = torch.stack([loaded.word(each, word, layer=layer) for each in (sentence, *compared)])
    cosines = loaded.similarity(vectors[:1], vectors[1:])[0].tolist()
    if as_json:
        found = [{"sentence": s, "cosine": c} for s, c in zip(compared, cosines, strict=True)]
        whole = {"sentence": sentence, "word": word, "vector": vectors[0].tolist()}
        typer.echo(json.dumps({**whole, "others": found}, ensure_ascii=False))
        return
    console = Console(highlight=False)
    size, norm, start = _summary(vectors[0])
    rows = {"word": word, "sentence": sentence, "size": size, "norm": f"{norm:.4f}"}
    console.print(
        grid({name: safe(said) for name, said in (rows | {"begins with": start}).items()})
    )
    if compared:
        pairs = list(zip(cosines, compared, strict=True))
        console.print("", listing(("cosine", "the same word in"), pairs), sep="\n")


def _gathered(given: list[str] | None, file: Path | None) -> list[str]:
    """All texts that were given, with the lines of stdin where - stands, and those of the file."""
    found = [line for each in given or () for line in texts(each, None)]
    return found if file is None else [*found, *texts(None, file)]


def _summary(vector: Tensor) -> tuple[str, float, str]:
    start = " ".join(f"{number:.3f}" for number in vector[:FEW].tolist())
    return f"{len(vector):,}", float(vector.norm()), f"{start} …"


def _show_nearest(
    given: Sequence[str], query: Tensor, vectors: Tensor, top_k: int, as_json: bool
) -> None:
    from glassformer.inference import nearest

    rows = [(cosine, given[place], place + 1) for place, cosine in nearest(query, vectors, top_k)]
    if as_json:
        for cosine, said, number in rows:
            row = {"text": said, "number": number, "cosine": cosine}
            typer.echo(json.dumps(row, ensure_ascii=False))
        return
    table = listing(("cosine", "number", "text"), [(c, str(n), said) for c, said, n in rows])
    Console(highlight=False).print(table)


def _writer(out: Path) -> Callable[[Sequence[str], Tensor], bytes]:
    writers = {".npy": _npy, ".csv": _csv, ".jsonl": _jsonl}
    if out.suffix not in writers:
        raise ConfigError(f"--out {out}: write a name that ends in {', '.join(writers)}")
    return writers[out.suffix]


def _npy(given: Sequence[str], vectors: Tensor) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, vectors.float().numpy(), allow_pickle=False)
    return file.getvalue()


def _csv(given: Sequence[str], vectors: Tensor) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["text", *range(vectors.shape[1])])
    writer.writerows([said, *row] for said, row in zip(given, vectors.tolist(), strict=True))
    return file.getvalue().encode()


def _jsonl(given: Sequence[str], vectors: Tensor) -> bytes:
    rows = zip(given, vectors.tolist(), strict=True)
    lines = (json.dumps({"text": a, "vector": b}, ensure_ascii=False) for a, b in rows)
    return "".join(f"{line}\n" for line in lines).encode()
