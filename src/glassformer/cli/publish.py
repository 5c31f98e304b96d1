"""`glassformer publish`: a model with its card on the Hugging Face hub."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import typer

from glassformer.cli.export import exported_files, print_files


def run(
    model: str = typer.Argument(help="A model folder, or a .gguf file."),
    name: str = typer.Argument(help="Its name on the hub.", metavar="OWNER/NAME"),
    private: bool = typer.Option(False, "--private", help="Only you and your team can see it."),
    upload: bool = typer.Option(False, "--upload", help="Upload it; else only show the files."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Publish a model on the Hugging Face hub, with its model card. A dry run without --upload.

    The files are those of `glassformer export`: nothing else of the folder is uploaded. Log in by
    `hf auth login` first.
    """
    from glassformer.checkpoint import card_for_hub, check_name
    from glassformer.checkpoint import upload as upload_folder
    from glassformer.loaded import load

    check_name(name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / name.partition("/")[2]
        load(model).export(folder)
        card = folder / "README.md"
        card.write_text(card_for_hub(card.read_text("utf-8"), name), "utf-8")
        files = exported_files(folder)
        address = upload_folder(folder, name, private=private) if upload else None
        text = card.read_text("utf-8")
    if as_json:
        typer.echo(json.dumps({"name": name, "address": address, "files": files, "card": text}))
        return
    print_files(files, name)
    if address is None:
        typer.echo(f"\n{text}\nThis is the model card. Nothing was uploaded: add --upload.")
    else:
        typer.echo(address)
