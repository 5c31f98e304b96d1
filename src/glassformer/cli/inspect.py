"""`glassformer inspect`: what happens inside a model, as tables and figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.common import ADAPTER, DEVICE, JSON, TOP_K, listing, open_model
from glassformer.cli.console import Console
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from glassformer.glass import Prediction, Trace
    from glassformer.loaded import Model

TOYS = ("toy decoder", "toy encoder", "toy translator")  # the first one, if no model is given
MAX_TRANSLATION_TOKENS = 64
FIGURES = ("map", "head", "lens", "path", "alignment")


@dataclass(frozen=True, eq=False)
class Inspection:
    """A recorded run of a model, and what of it to show."""

    model: Model
    text: Any  # or token ids; a pair, if there are two
    trace: Trace
    stack: str
    layer: int
    head: int | None
    token: int | str | None
    top_k: int

    @property
    def predicts_at_tokens(self) -> bool:
        traits = self.model.task.spec.traits
        return traits.predicts_tokens or traits.predicts == "token_labels"

    @property
    def classifies(self) -> bool:
        return "classify" in self.model.task.spec.traits.calls and self.model.tokenizer is not None

    @property
    def head_options(self) -> dict[str, Any]:
        return {"stack": self.stack, "layer": self.layer, "head": self.head}

    @property
    def own(self) -> str:
        """The stack of the queries."""
        return "decoder" if self.stack == "cross" else self.stack


def run(
    model: str | None = typer.Argument(
        None, help=f"A model folder, a name of the hub, or {', '.join(TOYS)} (the first, if none)."
    ),
    text: str | None = typer.Argument(
        None, help="The text; token ids, if the model has no tokenizer."
    ),
    second: str | None = typer.Argument(
        None, help="The second text of a pair, or a translation (the model's own, if none)."
    ),
    stack: str | None = typer.Option(None, help="encoder, decoder or cross."),
    layer: int | None = typer.Option(None, help="The layer to show; the last, if not given."),
    head: int | None = typer.Option(None, help="The head to show; the mean of all, if not given."),
    measure: str = typer.Option("type", help="What to show of each head: type, entropy, …"),
    lens: bool = typer.Option(
        False, "--lens", help="The logit lens: the best word after each layer."
    ),
    word: str | None = typer.Option(
        None, help="Follow a token (or its number) through the layers."
    ),
    figure: Path | None = typer.Option(None, help="Write a figure: a .png, .svg or .pdf file."),
    kind: str | None = typer.Option(
        None,
        help="Of the figure: map, head, lens, path or alignment; by the file's name, if not given.",
    ),
    top_k: int = TOP_K,
    adapter: Path | None = ADAPTER,
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Show what happens inside a model while it reads a text."""
    if model is not None and model not in TOYS and text is None:
        raise ConfigError("give a text after the model")
    if kind is not None and figure is None:
        raise ConfigError(f"--kind {kind}: it is for a figure: write --figure {kind}.png, too")
    opened, content = _open(model, text, device, adapter)
    view = _record(opened, content, second, stack, layer, head, word, top_k)
    console = Console(highlight=False)
    tables = [] if as_json else list(_tables(view, measure, lens, console.width))
    if figure is not None:
        _draw(view, figure, kind)
    if as_json:
        typer.echo(json.dumps(_as_json(view, lens), ensure_ascii=False))
    for table in tables:
        console.print(table)
        console.print()


def _open(
    model: str | None, text: str | None, device: str, adapter: Path | None
) -> tuple[Model, str]:
    if model is not None and model not in TOYS:
        return open_model(model, device, adapter=adapter), str(text)
    from glassformer.studio.toys import toy

    chosen = toy(model or TOYS[0])
    return chosen.model, chosen.texts[0] if text is None else text


def _record(
    model: Model, text: str, second: str | None, stack: str | None, layer: int | None,
    head: int | None, word: str | None, top_k: int,
) -> Inspection:  # fmt: skip
    from glassformer.glass.stacks import attentions, main_stack, place
    from glassformer.loaded import record
    from glassformer.studio.runs import check_length
    from glassformer.studio.tokenization import tokenize

    def keep(name: str) -> bool:
        return not name.endswith(".scores")  # as large as the weights, and not shown

    if model.task.backbone.config.family == "seq2seq":
        tokenized = tokenize(model, text)
        source = check_length(model, tokenized.ids)
        what: Any = source, check_length(model, _target(model, source, second))
    else:
        tokenized = tokenize(model, text, second)
        check_length(model, tokenized.ids)
        what = tokenized.inputs
    trace = record(model, what, keep=keep)
    stack = stack or main_stack(trace)
    layer = len(attentions(trace, stack)) - 1 if layer is None else layer
    place(trace, stack, layer, head)
    token = int(word) if word is not None and re.fullmatch(r"[0-9]{1,9}", word) else word
    return Inspection(model, tokenized.inputs, trace, stack, layer, head, token, top_k)


def _target(model: Model, source: list[int], text: str | None) -> list[int]:
    """The decoder's ids: the start token, and the translation, the model's own if none is given."""
    from glassformer.studio.tokenization import tokenize_target

    config = model.task.backbone.config
    start = config.ids.start or 0
    if text is not None:
        return [start, *tokenize_target(model, text)]
    if "translate" not in model.task.spec.traits.calls:
        return [start, *source[:-1]]
    limit = max(1, min(MAX_TRANSLATION_TOKENS, config.max_length - 1))
    (translation,) = model.generate([source], max_new_tokens=limit)
    ended = len(translation.ids) > 1 and translation.stopped == "end"
    return [start, *(translation.ids[:-1] if ended else translation.ids)]


def _tables(view: Inspection, measure: str, lens: bool, width: int) -> Iterator[Table]:
    trace, stack = view.trace, view.stack
    yield trace.table("tokens", width=width)
    if view.predicts_at_tokens:
        at = _predicted(view)
        yield trace.table("predictions", model=view.model, top_k=view.top_k, at=at, width=width)
    elif view.classifies:
        yield listing(("label", "score"), _labels(view).items())
    yield trace.table("heads", stack=stack, measure=measure, width=width)
    yield trace.table("weights", **view.head_options, width=width)
    if stack == "cross":
        yield trace.table("alignment", width=width)
    if lens:
        yield trace.table("lens", model=view.model, width=width)
    if view.token is not None:
        yield trace.table("path", token=view.token, stack=view.own)


def _predicted(view: Inspection) -> list[int] | None:
    """The tokens whose predictions are shown: masks, or the last one; else all."""
    from glassformer.studio.tokenization import mask_token

    tokens = view.trace.tokens
    if "generate" in view.model.task.spec.traits.calls:
        return [len(tokens) - 1]
    mask = mask_token(view.model.tokenizer)
    return [i for i, token in enumerate(tokens) if token == mask] or None


def _labels(view: Inspection) -> dict[str, float]:
    return view.model.classify([view.text], top_k=view.top_k)[0].scores


def _as_json(view: Inspection, lens: bool) -> dict[str, Any]:
    from glassformer import glass
    from glassformer.glass.tables import one_head

    model, trace, stack = view.model, view.trace, view.stack
    report: dict[str, Any] = {
        "tokens": trace.tokens,
        "source_tokens": trace.source_tokens,
        "stacks": {name: shape._asdict() for name, shape in glass.stacks(trace).items()},
        **view.head_options,
        "weights": one_head(trace, **view.head_options)[0].tolist(),
        "measures": {k: x.tolist() for k, x in glass.head_measures(trace, stack).items()},
        "types": glass.head_types(trace, stack),
    }
    if view.predicts_at_tokens:
        report["predictions"] = _rows(glass.predictions(model, trace, top_k=view.top_k))
    elif view.classifies:
        report["labels"] = _labels(view)
    if lens:
        points = glass.lens(model, trace, top_k=view.top_k)
        report["lens"] = {name: _rows(best) for name, best in points.items()}
    if view.token is not None:
        path = glass.word_path(trace, view.token, view.own)
        rows = {"norm": path.norm, "to_start": path.to_start, "to_end": path.to_end}
        lists = {name: values.tolist() for name, values in rows.items()}
        report["path"] = {"token": path.token, "points": path.points, **lists}
    return report


def _rows(best: Prediction) -> list[dict[str, Any]]:
    rows = zip(best.tokens, best.words, best.probabilities.tolist(), strict=True)
    return [{"token": token, "words": words, "probabilities": p} for token, words, p in rows]


def _draw(view: Inspection, out: Path, kind: str | None) -> None:
    figure: Any = kind or (out.stem if out.stem in FIGURES else FIGURES[0])
    options: dict[str, dict[str, Any]] = {
        "map": {"stack": view.stack},
        "head": view.head_options,
        "lens": {"model": view.model},
        "path": {"token": view.token or 0, "stack": view.own},
    }
    view.trace.figure(figure, **options.get(figure, {})).save(out)
    typer.echo(str(out), err=True)
