"""`glassformer export`: write a model as a Hugging Face folder, or in ONNX."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from glassformer.cli.common import ADAPTER, Method, Precision
from glassformer.errors import ConfigError, InputError


def run(
    model: str = typer.Argument(help="A model folder, a .gguf file, or a name of the hub."),
    out: Path = typer.Argument(help="The folder to write."),
    dtype: Precision | None = typer.Option(None, help="Precision; the model's, if not given."),
    onnx: bool = typer.Option(
        False, "--onnx", help="Write ONNX files, checked in onnxruntime against the model."
    ),
    quantize: Method | None = typer.Option(
        None, help="Round the weights to int8 or int4; with --onnx to int8, by onnxruntime's tool."
    ),
    adapter: Path | None = ADAPTER,
    force: bool = typer.Option(False, help="Overwrite what is in the folder."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Write a model as a folder that glassformer and transformers open, with a model card; or, with
    --onnx, for onnxruntime."""
    if onnx and quantize == Method.int4:
        raise ConfigError("--quantize int4: ONNX files are float32 or int8: write int8")
    if onnx and dtype is not None:
        raise ConfigError(f"--dtype {dtype}: ONNX files are float32 or int8: leave it out")
    try:
        taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None
    if taken and not force:
        raise InputError(f"{out}: exists already: give a new folder, or --force")
    import torch

    from glassformer.loaded import load

    precision = None if dtype is None else getattr(torch, dtype)
    loaded = load(model, dtype=precision, adapter=adapter)
    loaded = loaded if adapter is None else loaded.merge_adapter()
    facts = {}
    if onnx:
        facts["largest_difference"] = loaded.export_onnx(out, int8=quantize is not None)
    else:
        loaded = loaded if quantize is None else loaded.quantize(quantize)
        loaded.export(out, name=Path(model).resolve().name.removesuffix(".gguf"))
    files = exported_files(out)
    if as_json:
        typer.echo(json.dumps({"folder": str(out), "files": files, **facts}))
        return
    print_files(files, out)
    for difference in facts.values():
        typer.echo(
            f"In onnxruntime the outputs differ by at most {difference:.1e} of the largest.",
            err=True,
        )


def exported_files(folder: Path) -> dict[str, int]:
    """The size of each file in bytes."""
    return {
        file.relative_to(folder).as_posix(): file.stat().st_size
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def print_files(files: dict[str, int], where: str | Path) -> None:
    for name, size in files.items():
        typer.echo(f"{size:>14,}  {Path(where) / name}")
