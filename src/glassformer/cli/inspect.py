"""`glassformer inspect`: what a model does with a text, as tables and pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from glassformer.cli.common import DEVICE, JSON, TOP_K, listing, open_model
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from glassformer.glass import Prediction, Trace
    from glassformer.loaded import Model

TOYS = ("toy decoder", "toy encoder", "toy translator")  # the first one, if no model is given
MOST_WRITTEN = 64  # tokens of a translation
PICTURES = ("map", "head", "lens", "path", "alignment")
SPEAKING = ("masked_lm", "masked_lm_nsp", "causal_lm", "translation", "token_classification")


@dataclass(frozen=True, eq=False)
class Seen:
    """A model and what it did, and what of it is to be shown."""

    model: Model
    what: Any  # as `record` took it
    trace: Trace
    stack: str
    layer: int
    head: int | None
    token: int | str | None
    top_k: int

    @property
    def speaks(self) -> bool:
        return self.model.task.spec.kind in SPEAKING

    @property
    def head_options(self) -> dict[str, Any]:
        return {"stack": self.stack, "layer": self.layer, "head": self.head}

    @property
    def own(self) -> str:
        """The stack that a token which asks is of."""
        return "decoder" if self.stack == "cross" else self.stack


def run(
    model: str | None = typer.Argument(
        None, help=f"A model folder, a name of the hub, or {', '.join(TOYS)} (the first, if none)."
    ),
    text: str | None = typer.Argument(None, help="The text; token ids, if it has no tokenizer."),
    second: str | None = typer.Argument(
        None, help="The second text of a pair, or a translation (else the model writes one)."
    ),
    stack: str | None = typer.Option(None, help="encoder, decoder or cross."),
    layer: int | None = typer.Option(None, help="Whose weights to print: the last, if not given."),
    head: int | None = typer.Option(None, help="The mean of all heads, if not given."),
    measure: str = typer.Option("type", help="What to say of each head: type, entropy, …"),
    lens: bool = typer.Option(False, "--lens", help="What it would say after each layer."),
    word: str | None = typer.Option(None, help="Follow a token (or its number) on its way."),
    figure: Path | None = typer.Option(None, help="Write a picture: a .png, .svg or .pdf file."),
    kind: str | None = typer.Option(
        None, help="Of the picture: map, head, lens, path or alignment; else by the file's name."
    ),
    top_k: int = TOP_K,
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """Look inside a model while it reads a text."""
    if model is not None and model not in TOYS and text is None:
        raise ConfigError("give a text behind the model")
    if kind is not None and figure is None:
        raise ConfigError(f"--kind {kind}: it is of a picture: write --figure {kind}.png, too")
    opened, read = _open(model, text, device)
    seen = _look(opened, read, second, stack, layer, head, word, top_k)
    console = Console(highlight=False)
    tables = [] if as_json else list(_tables(seen, measure, lens, console.width))
    if figure is not None:
        _draw(seen, figure, kind)
    if as_json:
        typer.echo(json.dumps(_as_json(seen, lens), ensure_ascii=False))
    for table in tables:
        console.print(table)
        console.print()


def _open(model: str | None, text: str | None, device: str) -> tuple[Model, str]:
    if model is not None and model not in TOYS:
        return open_model(model, device), str(text)
    from glassformer.studio.toys import toy

    chosen = toy(model or TOYS[0])
    return chosen.model, chosen.texts[0] if text is None else text


def _look(
    model: Model, text: str, second: str | None, stack: str | None, layer: int | None,
    head: int | None, word: str | None, top_k: int,
) -> Seen:  # fmt: skip
    from glassformer.glass.stacks import attentions, main_stack, place
    from glassformer.loaded import record
    from glassformer.studio.runs import check_length
    from glassformer.studio.tokenization import tokenize

    def keep(name: str) -> bool:
        return not name.endswith(".scores")  # as large as the weights, and not shown

    if model.task.backbone.config.family == "seq2seq":
        source = check_length(model, tokenize(model, text).ids)
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
    return Seen(model, what, trace, stack, layer, head, token, top_k)


def _target(model: Model, source: list[int], text: str | None) -> list[int]:
    """What the decoder reads: its start token, and the translation, its own if none is given."""
    from glassformer.studio.tokenization import tokenize_target

    config = model.task.backbone.config
    start = config.ids.start or 0
    if text is not None:
        return [start, *tokenize_target(model, text)]
    if model.task.spec.kind != "translation":
        return [start, *source[:-1]]
    room = max(1, min(MOST_WRITTEN, config.max_length - 1))
    (written,) = model.generate([source], max_new_tokens=room)
    ended = len(written.ids) > 1 and written.stopped == "end"
    return [start, *(written.ids[:-1] if ended else written.ids)]


def _tables(seen: Seen, measure: str, lens: bool, width: int) -> Iterator[Table]:
    trace, stack = seen.trace, seen.stack
    yield trace.table("tokens", width=width)
    if seen.speaks:
        at = _asked(seen)
        yield trace.table("says", model=seen.model, top_k=seen.top_k, at=at, width=width)
    elif seen.model.task.spec.kind == "classification" and seen.model.tokenizer is not None:
        yield listing(("label", "score"), _labels(seen).items())
    yield trace.table("heads", stack=stack, measure=measure, width=width)
    yield trace.table("weights", **seen.head_options, width=width)
    if stack == "cross":
        yield trace.table("alignment", width=width)
    if lens:
        yield trace.table("lens", model=seen.model, width=width)
    if seen.token is not None:
        yield trace.table("path", token=seen.token, stack=seen.own)


def _asked(seen: Seen) -> list[int] | None:
    """Where words are asked for: in the blanks, behind the text; else everywhere."""
    from glassformer.studio.tokenization import mask_token

    tokens = seen.trace.tokens
    if seen.model.task.spec.kind == "causal_lm":
        return [len(tokens) - 1]
    mask = mask_token(seen.model.tokenizer)
    return [i for i, token in enumerate(tokens) if token == mask] or None


def _labels(seen: Seen) -> dict[str, float]:
    return seen.model.classify([seen.what], top_k=seen.top_k)[0].scores


def _as_json(seen: Seen, lens: bool) -> dict[str, Any]:
    from glassformer import glass
    from glassformer.glass.tables import one_head

    model, trace, stack = seen.model, seen.trace, seen.stack
    found: dict[str, Any] = {
        "tokens": trace.tokens,
        "source_tokens": trace.source_tokens,
        "stacks": {name: shape._asdict() for name, shape in glass.stacks(trace).items()},
        **seen.head_options,
        "weights": one_head(trace, **seen.head_options)[0].tolist(),
        "measures": {k: each.tolist() for k, each in glass.head_measures(trace, stack).items()},
        "types": glass.head_types(trace, stack),
    }
    if seen.speaks:
        found["says"] = _said(glass.predictions(model, trace, top_k=seen.top_k))
    elif model.task.spec.kind == "classification" and model.tokenizer is not None:
        found["labels"] = _labels(seen)
    if lens:
        points = glass.lens(model, trace, top_k=seen.top_k)
        found["lens"] = {name: _said(each) for name, each in points.items()}
    if seen.token is not None:
        path = glass.word_path(trace, seen.token, seen.own)
        rows = {"norm": path.norm, "to_start": path.to_start, "to_end": path.to_end}
        lists = {name: each.tolist() for name, each in rows.items()}
        found["path"] = {"token": path.token, "points": path.points, **lists}
    return found


def _said(said: Prediction) -> list[dict[str, Any]]:
    rows = zip(said.tokens, said.words, said.probabilities.tolist(), strict=True)
    return [{"token": token, "words": words, "chances": p} for token, words, p in rows]


def _draw(seen: Seen, out: Path, kind: str | None) -> None:
    kind = kind or (out.stem if out.stem in PICTURES else PICTURES[0])
    options: dict[str, dict[str, Any]] = {
        "map": {"stack": seen.stack},
        "head": seen.head_options,
        "lens": {"model": seen.model},
        "path": {"token": seen.token or 0, "stack": seen.own},
    }
    seen.trace.figure(kind, **options.get(kind, {})).save(out)
    typer.echo(str(out), err=True)
