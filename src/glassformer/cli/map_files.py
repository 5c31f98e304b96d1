"""`glassformer map TASK INPUT OUTPUT`: a task for each row of large files."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from glassformer.cli.common import ADAPTER, COLUMN, DEVICE, ENCODING, Precision, with_paths
from glassformer.cli.data import INTERRUPTED
from glassformer.cli.embed import POOL, PROMPT, PROMPT_NAME, Pool
from glassformer.cli.generate import unescape_stop
from glassformer.cli.generation_options import with_settings
from glassformer.cli.text_options import with_fields
from glassformer.cli.translate import ALIGN, N_BEST, SCORES, SOURCE, TARGET
from glassformer.data.remote import is_address
from glassformer.errors import counted
from glassformer.generate.settings import TRANSLATION
from glassformer.recipe.paths import expanded

app = typer.Typer(
    help="Run a task for each row of large files; interrupt it at any time, and resume.",
    no_args_is_help=True,
)


class Format(StrEnum):
    """What --format may be."""

    jsonl = "jsonl"
    parquet = "parquet"


@dataclass(frozen=True)
class MapOptions:
    """Which rows go where, and how the work is divided."""

    inputs: str = typer.Argument(
        metavar="INPUT", help="A file or a folder: text, .jsonl, .csv, .tsv or .parquet; or the "
        "address of one: s3://…, https://…",
    )  # fmt: skip
    output: Path = typer.Argument(metavar="OUTPUT", help="The folder to write.")
    model: str = typer.Option(help="A model folder, a name of `glassformer list`, or of the hub.")
    column: list[str] | None = COLUMN
    format: Format | None = typer.Option(
        None, help="The format of the output: jsonl, or parquet for embed and tokenize; by the "
        "name of OUTPUT, if not given.",
    )  # fmt: skip
    shard_rows: int | None = typer.Option(
        None, min=1, help="Rows of a shard: what a killed job computes again, at most."
    )
    processes: int = typer.Option(1, min=1, help="How many hold the model and compute.")
    ray: bool = typer.Option(False, "--ray", help="Let them run in a Ray cluster, on any host.")
    encoding: str = ENCODING
    adapter: Path | None = ADAPTER
    device: str = DEVICE
    dtype: Precision | None = typer.Option(None, help="Precision; the model's, if not given.")
    as_json: bool = typer.Option(False, "--json", help="Print JSON.")

    def run(
        self, task: str, settings: Mapping[str, Any] | None = None, **flags: bool | int | str | None
    ) -> None:
        """Run the task to its end, and print what was written.

        `settings` are those of generation that were written; `flags` are the command's own.
        """
        from glassformer.bulk import map_files

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        written = {
            name: value for name, value in flags.items() if value is not None and value is not False
        }
        inputs = self.inputs if is_address(self.inputs) else expanded(self.inputs)
        try:
            summary = map_files(
                task, inputs, self.output, model=self.model, columns=self.column or (),
                format=self.format, shard_rows=self.shard_rows, encoding=self.encoding,
                device=self.device, dtype=self.dtype, processes=self.processes, ray=self.ray,
                progress=True, adapter=self.adapter, **written, **(settings or {}),
            )  # fmt: skip
        except KeyboardInterrupt:
            line = f"{self.output}: interrupted: run the same command to resume"
            typer.echo(f"glassformer: {line}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        if summary.warnings:
            more = f" (and {counted(summary.warnings - 1, 'more such warnings')})"
            more = more if summary.warnings > 1 else ""
            typer.echo(f"glassformer: {summary.first_warning}{more}", err=True)
        if self.as_json:
            typer.echo(json.dumps(asdict(summary)))
            return
        before = summary.shards - summary.computed
        parts = [f"{counted(summary.rows, 'rows')} in {counted(summary.shards, 'shards')}"]
        parts += [f"{before:,} of them finished before"] if before else []
        parts += [f"{counted(summary.errors, 'errors')} in _errors"] if summary.errors else []
        typer.echo(f"{self.output}: {', '.join(parts)}")


mapped = with_fields(MapOptions, ("encoding", "adapter", "device", "dtype", "as_json"))


@app.command()
@with_paths
@mapped
def embed(
    options: MapOptions,
    pool: Pool | None = POOL,
    prompt_name: str | None = PROMPT_NAME,
    prompt: str | None = PROMPT,
) -> None:
    """The column vector: an embedding of each text."""
    options.run("embed", pool_by=pool, prompt_name=prompt_name, prompt=prompt)


@app.command()
@with_paths
@mapped
def classify(options: MapOptions) -> None:
    """The columns label and probability; --column twice names the columns of a pair."""
    options.run("classify")


@app.command()
@with_paths
@mapped
def tag(
    options: MapOptions,
    words: bool = typer.Option(False, "--words", help="Words are separated by spaces."),
) -> None:
    """The columns words, labels and spans."""
    options.run("tag", words=words)


@app.command()
@with_paths
@with_settings("num_beams", "length_penalty", defaults=TRANSLATION)
@mapped
def translate(
    options: MapOptions,
    source: str | None = SOURCE,
    target: str | None = TARGET,
    n_best: int = N_BEST,
    scores: bool = SCORES,
    align: bool = ALIGN,
    **settings: Any,
) -> None:
    """The column translation."""
    own = {"source": source, "target": target, "scores": scores, "align": align}
    options.run("translate", settings, **own, n_best=n_best)


@app.command()
@with_paths
@with_settings()
@mapped
def generate(options: MapOptions, **settings: Any) -> None:
    r"""The columns generated_text and stopped. In --stop, \n is a new line."""
    unescape_stop(settings)
    options.run("generate", settings)


@app.command()
@with_paths
@mapped
def tokenize(options: MapOptions) -> None:
    """The column ids: the token ids of each text, with special tokens."""
    options.run("tokenize")
