"""`glassformer evaluate`: a model on the part of the data that its recipe holds out."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from glassformer.cli.common import grid, safe
from glassformer.cli.training import DATA, JSON, RECIPE, given
from glassformer.errors import ConfigError, check_installed
from glassformer.recipe.toml import root_of

if TYPE_CHECKING:
    from glassformer.data.prepare import Progress
    from glassformer.recipe.schema import Recipe
    from glassformer.train.documents import RunPaths, Tell

USUAL = 4_096  # tokens in a row, where the recipe leaves it open
SHOWN = 32  # characters of a document


def run(
    context: typer.Context,
    model: str = typer.Argument(help="The model folder."),
    recipe: Path = RECIPE,
    data: Path | None = DATA,
    translate: int | None = typer.Option(
        None, min=0, help="Translate so many sentences, for BLEU, chrF and TER; all if not given."
    ),
    num_beams: int = typer.Option(4, min=1, help="Translations that are tried side by side."),
    length_penalty: float = typer.Option(1.0, help="Above 0 favours long translations."),
    per_document: bool = typer.Option(False, help="Also each document (of causal_lm)."),
    as_json: bool = JSON,
) -> None:
    """Measure a model on the validation part of a recipe: loss, perplexity, accuracy; of a
    translator BLEU, chrF and TER. Any field of the recipe can be set: --data.valid test.txt
    """
    from glassformer.recipe.schema import read_recipe

    wanted = of_model(read_recipe(recipe, given(context.args)), model)
    if per_document and wanted.objective.kind != "causal_lm":
        raise ConfigError(
            f"--per-document: objective.kind = {wanted.objective.kind!r} knows no documents: "
            "leave it out"
        )
    from glassformer.train.documents import RunPaths

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = RunPaths(root_of(wanted, data, recipe), Path(folder), str(recipe), lines_told())
        search = {"num_beams": num_beams, "length_penalty": length_penalty}
        found = measure(wanted, place, translate, search, per_document)
    if as_json:
        typer.echo(json.dumps({"model": model, "recipe": str(recipe), **found}))
    else:
        _show(found)


def of_model(recipe: Recipe, model: str) -> Recipe:
    """The recipe with this model and its tokenizer, one row after the other, nothing compiled."""
    from glassformer.checkpoint import read_configs
    from glassformer.recipe.schema import FAMILY, TokenizerConfig

    known, wanted = read_configs(model)[1], FAMILY[recipe.objective.kind][1]
    if known.kind != wanted:
        raise ConfigError(
            f"{model}: this model is for {known.kind}, and the recipe's objective.kind = "
            f"{recipe.objective.kind!r} needs one for {wanted}"
        )
    separator = recipe.data.label_separator
    if known.several != (separator is not None):
        tells = "any number of labels" if known.several else "one label"
        write = "write it" if known.several else "leave it out"
        raise ConfigError(
            f"{model}: this model tells {tells} of a text, and the recipe's data.label_separator "
            f"= {separator!r}: {write}"
        )
    tokens = recipe.train.micro_batch_tokens
    tokens = max(USUAL, recipe.objective.length) if tokens == "auto" else tokens
    settings = {"compile": False, "cuda_graphs": False, "micro_batch_tokens": tokens}
    train = recipe.train.model_copy(update=settings)
    own = {"init_from": model, "model": {}, "tokenizer": TokenizerConfig(), "train": train}
    return recipe.model_copy(update=own)


def lines_told() -> Tell:
    """Each line once: what was left out or skipped; how far preparing has come is not told."""
    said: set[str] = set()

    def tell(line: str, progress: Progress | None) -> None:
        if progress is None and line not in said:
            said.add(line)
            typer.echo(line, err=True)

    return tell


def measure(
    recipe: Recipe,
    place: RunPaths,
    translate: int | None = None,
    search: dict[str, Any] | None = None,
    per_document: bool = False,
) -> dict[str, Any]:
    from glassformer.distributed import join
    from glassformer.evaluate.loss import by_document, evaluate
    from glassformer.evaluate.metrics import PACKAGES
    from glassformer.precision import compute_dtype
    from glassformer.recipe.schema import LABELLED
    from glassformer.train.build import build_judge, build_measured, build_valid
    from glassformer.train.documents import held_out
    from glassformer.train.state import PRECISION

    if recipe.objective.kind in LABELLED:
        check_installed(f"objective.kind = {recipe.objective.kind!r}", "metrics", *PACKAGES)
    judged = recipe.objective.kind == "translation" and translate != 0
    if judged:
        check_installed("BLEU (leave it out with --translate 0)", "metrics", "sacrebleu")
    world = join(recipe.train.device)
    task, rows = build_valid(recipe, place, world)
    task = task.to(compute_dtype(PRECISION[recipe.train.precision], task.device).dtype)
    found: dict[str, Any] = evaluate(task, rows, world)
    from_text = rows.objective.store.folder.is_relative_to(place.out)
    if recipe.objective.kind == "causal_lm" and from_text:
        texts = [str(text) for text in held_out(recipe, place, "valid")]
        size = sum(len(text.encode()) for text in texts)
        found["bits_per_byte"] = _bits(found["loss"] * found["answers"], size)
        if per_document:
            found["documents"] = _documents(texts, by_document(task, rows, world).tolist())
    elif per_document:
        raise ConfigError(
            f"{rows.objective.store.folder}: ids and no text: --per-document needs it"
        )
    if recipe.objective.kind in LABELLED:
        found |= build_measured(recipe, place, task.spec.labels).figures(task)
    if judged:
        judges = build_judge(recipe, place, translate, **search or {})(
            task, ("bleu", "chrf", "ter")
        )
        found |= {name: each.value for name, each in judges.items()}
        found["signatures"] = {name: each.signature for name, each in judges.items()}
    return found


def _bits(nats: float, size: int) -> float:
    return nats / math.log(2) / size


def _documents(texts: list[str], sums: list[list[float]]) -> list[dict[str, Any]]:
    from glassformer.evaluate.loss import perplexity

    found = []
    for text, (nats, answers) in zip(texts, sums, strict=True):
        loss = nats / max(1, answers)
        size = len(text.encode())
        found.append({
            "begins": text[:SHOWN], "bytes": size, "answers": int(answers), "loss": loss,
            "perplexity": perplexity(loss), "bits_per_byte": _bits(nats, size),
        })  # fmt: skip
    return found


def _show(found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    documents, signatures = found.pop("documents", []), found.pop("signatures", {})
    told = {name.replace("_", " "): f"{value:,.4f}" for name, value in found.items()}
    told["answers"] = f"{found['answers']:,.0f}"
    for name, signature in signatures.items():
        told[name] = f"{found[name]:.2f}  {signature}"
    console.print(grid(told))
    if not documents:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("bytes", "answers", "perplexity", "bits per byte", "begins"):
        table.add_column(name, justify="left" if name == "begins" else "right", no_wrap=True)
    for each in documents:
        table.add_row(
            f"{each['bytes']:,}", f"{each['answers']:,}", f"{each['perplexity']:,.2f}",
            f"{each['bits_per_byte']:.4f}", safe(each["begins"]),
        )  # fmt: skip
    console.print(table)
