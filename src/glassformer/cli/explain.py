"""`glassformer explain`: which parts of a model, and which words, made it predict this word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.common import (
    DEVICE,
    JSON,
    MODEL,
    listing,
    open_model,
    texts,
    visible,
    with_paths,
)
from glassformer.cli.console import Console
from glassformer.errors import InputError

if TYPE_CHECKING:
    from glassformer.interpret.contrast import Contrast
    from glassformer.loaded import Model


class SiteName(StrEnum):
    """What --site may be."""

    stream = "stream"
    attention = "attention"
    mlp = "mlp"
    head = "head"
    cross = "cross"
    cross_head = "cross_head"


class MethodName(StrEnum):
    """What --method may be."""

    integrated_gradients = "integrated_gradients"
    gradient_x_input = "gradient_x_input"
    occlusion = "occlusion"
    value_zeroing = "value_zeroing"
    attention_rollout = "attention_rollout"


app = typer.Typer(
    help="Explain a prediction: which parts of a model made it, and which words.",
    no_args_is_help=True,
)
TEXT = typer.Argument(help="The text; of an encoder, with a [MASK] in it.")
CORRUPTED = typer.Argument(help="The same text with other words, of the same number of tokens.")
TARGET = typer.Option("", help="For a translation model: what it has written so far.")
ANSWER = typer.Option(None, help="The word to explain; the model's best one, if not given.")
OTHER = typer.Option(None, help="The word to compare it with; the next best one, if not given.")
POSITION = typer.Option(
    None, help="The number of the token that predicts; the [MASK], or the last one, if not given."
)
ROWS = typer.Option(20, min=1, help="How many to show, the strongest first.")


@app.command("logits")
@with_paths
def explain_logits(
    model: str = MODEL, text: str = TEXT, target: str = TARGET, answer: str | None = ANSWER,
    other: str | None = OTHER, position: int | None = POSITION, rows: int = ROWS,
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """What each head, MLP and embedding adds to logit(answer) − logit(other)."""
    from glassformer.interpret.attribution import direct_logit_attribution

    opened = open_model(model, device)
    what = _input(opened, text, target)
    split = direct_logit_attribution(opened, what, answer, other, position=position)
    report = {
        **_about(split.contrast), "difference": split.difference, "total": split.total,
        "rounding": split.rounding,
        "contributions": [
            {"kind": each.kind, "layer": each.layer, "head": each.head, "value": each.value}
            for each in split.contributions
        ],
    }  # fmt: skip
    best = split.strongest[:rows]
    table = ("part", "adds"), [(each.name, each.value) for each in best]
    first, second = map(visible, split.contrast.words)
    _print(report, as_json, [f"logit({first}) − logit({second}) = {split.difference:.4f}"], table)


@app.command("patch")
@with_paths
def explain_patch(
    model: str = MODEL, text: str = TEXT, corrupted: str = CORRUPTED, target: str = TARGET,
    answer: str | None = ANSWER, other: str | None = OTHER, position: int | None = POSITION,
    site: SiteName = typer.Option(SiteName.stream, help="Which activations to patch."),
    stack: str | None = typer.Option(None, help="encoder or decoder; the one that predicts."),
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """Put activations of the text into the corrupted one: how much of the answer comes back?"""
    from glassformer.interpret.patching import patching_sweep

    opened = open_model(model, device)
    clean, changed = (_input(opened, each, target) for each in (text, corrupted))
    result = patching_sweep(
        opened, clean, changed, answer, other, site=site.value, stack=stack, position=position
    )
    shares = result.recovered
    report = {
        "site": result.site, "stack": result.stack, "tokens": result.tokens[0],
        "corrupted_tokens": result.tokens[1], "answer": result.words[0], "other": result.words[1],
        "clean": result.clean, "corrupted": result.corrupted, "recovered": shares.tolist(),
    }  # fmt: skip
    by_head = "head" in site.value
    names = (
        [f"head {i}" for i in range(shares.shape[1])] if by_head else map(visible, result.tokens[0])
    )
    titles = ("token" if not by_head else "", *(f"layer {i}" for i in range(len(shares))))
    body = [(name, *column) for name, column in zip(names, shares.T.tolist(), strict=True)]
    first, second = map(visible, result.words)
    lines = [
        f"logit({first}) − logit({second}): clean {result.clean:.4f}, "
        f"corrupted {result.corrupted:.4f}; the share that each patch recovers:"
    ]
    _print(report, as_json, lines, (titles, body))


@app.command("circuit")
@with_paths
def explain_circuit(
    model: str = MODEL, text: str = TEXT, corrupted: str = CORRUPTED, target: str = TARGET,
    answer: str | None = ANSWER, other: str | None = OTHER, position: int | None = POSITION,
    edges: int = typer.Option(50, min=1, help="The size of the circuit."),
    steps: int = typer.Option(5, min=1, max=1024, help="Of EAP-IG's integral; 1 is plain EAP."),
    dot: Path | None = typer.Option(None, help="Write the graph to this file, for Graphviz."),
    rows: int = ROWS, device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """The strongest edges between heads, MLPs and embeddings, and how faithful they alone are."""
    from glassformer.interpret.circuits import edge_effects

    _check_folder(dot)
    opened = open_model(model, device)
    clean, changed = (_input(opened, each, target) for each in (text, corrupted))
    effects = edge_effects(opened, clean, changed, answer, other, position=position, steps=steps)
    circuit = effects.circuit(edges)
    if dot is not None:
        try:
            dot.write_text(circuit.dot(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{dot}: cannot be written: {error.strerror}") from None
    report = {
        **_about(effects.clean), "clean": effects.clean.value(),
        "corrupted": effects.corrupted.value(), "faithfulness": circuit.faithfulness,
        "random_weight_control": effects.random_weight_control(edges),
        "all_edges": len(effects.edges), "connected": len(circuit.connected),
        "edges": [{"from": str(u), "to": str(v), "effect": x} for u, v, x in circuit.edges],
    }  # fmt: skip
    lines = [
        f"{edges} of {len(effects.edges)} edges, {len(circuit.connected)} of them connected: "
        f"faithfulness {report['faithfulness']:.3f}",
        f"as many edges that random weights choose: {report['random_weight_control']:.3f}",
    ]
    body = [(str(edge.writer), str(edge.reader), edge.effect) for edge in circuit.edges[:rows]]
    _print(report, as_json, lines, (("from", "to", "effect of corrupting it"), body))


@app.command("input")
@with_paths
def explain_input(
    model: str = MODEL, text: str = TEXT, target: str = TARGET, answer: str | None = ANSWER,
    other: str | None = OTHER, position: int | None = POSITION,
    method: MethodName = typer.Option(MethodName.integrated_gradients, help="How to score words."),
    steps: int = typer.Option(
        64, min=1, max=1024, help="Of the integral of integrated_gradients."
    ),
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """Score the words of a text, with checks of how much to believe the scores."""
    from glassformer.interpret.inputs import input_attribution

    opened = open_model(model, device)
    what = _input(opened, text, target)
    result = input_attribution(
        opened, what, answer, other, method=method.value, position=position, steps=steps
    )
    contrast = result.contrast
    pairs = [
        (token, score)
        for stack, scores in result.scores.items()
        for token, score in zip(contrast.side(stack), scores.tolist(), strict=True)
    ]
    report = {
        **_about(contrast), "method": result.method, "difference": result.difference,
        "baseline": result.baseline, "scores": {n: x.tolist() for n, x in result.scores.items()},
        "gap": result.gap, "deletion_curve": result.deletion_curve(),
        "random_weight_correlation": result.random_weight_control(),
    }  # fmt: skip
    first, second = map(visible, contrast.words)
    gap = "–" if result.gap is None else f"{result.gap:.2%}"
    lines = [
        f"logit({first}) − logit({second}) = {result.difference:.4f}, without words "
        f"{result.baseline:.4f}",
        f"completeness gap {gap}; rank correlation with random weights "
        f"{report['random_weight_correlation']:.2f}",
        "without the best words one after the other: "
        + " ".join(f"{value:.2f}" for value in report["deletion_curve"][:8]),
    ]
    _print(report, as_json, lines, (("token", "score"), [(visible(t), x) for t, x in pairs]))


@app.command("steer")
@with_paths
def explain_steer(
    model: str = MODEL, text: str = TEXT,
    towards: Path = typer.Option(help="Texts of the kind to steer towards, one per line."),
    away: Path = typer.Option(help="Texts of the other kind, one per line."),
    layer: int | None = typer.Option(
        None, help="The block whose output is steered, from 0; the middle one, by default."
    ),
    strength: float = typer.Option(1.0, help="A factor for the vector."),
    out: Path | None = typer.Option(None, help="Save the vector: a .safetensors file."),
    top_k: int = typer.Option(5, min=1, help="How many words to show."),
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """Add a difference of means to the stream, and compare the predictions."""
    from glassformer.glass import predictions
    from glassformer.glass.lens import output_side
    from glassformer.interpret.contrast import ask
    from glassformer.interpret.steering import steering_vector
    from glassformer.loaded import record

    _check_folder(out)
    opened = _open_single_stack(model, device, "steer")
    contrast, stack = ask(opened, _input(opened, text, "")), output_side(opened.task)
    place, ids = contrast.position, contrast.batch.tokens.tolist()
    kinds = [[_input(opened, line, "") for line in _lines(file)] for file in (towards, away)]
    layer = opened.config.depth // 2 if layer is None else layer
    vector = steering_vector(opened, *kinds, layer=layer, stack=stack)
    if out is not None:
        vector.save(out)
    best = [
        predictions(opened, record(opened, ids, edit=edit), top_k=top_k)
        for edit in (None, vector.edit(strength))
    ]
    columns = [
        list(zip(each.words[place], each.probabilities[place].tolist(), strict=True))
        for each in best
    ]
    report = {"layer": layer, "strength": strength, "before": columns[0], "after": columns[1]}
    rows = [(visible(a), x, visible(b), y) for (a, x), (b, y) in zip(*columns, strict=True)]
    _print(report, as_json, [], (("before", "probability", "after", "probability"), rows))


@app.command("probe")
@with_paths
def explain_probe(
    model: str = MODEL,
    file: Path = typer.Argument(help="A CoNLL file: a word and its label per line."),
    out: Path | None = typer.Option(None, help="Save the probe of the best layer: .safetensors."),
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """Can a linear classifier read a label from each layer, beyond what it learns by heart?"""
    from glassformer.data.readers.conll import tagged
    from glassformer.interpret.probing import fit_probe
    from glassformer.interpret.word_vectors import word_vectors

    _check_folder(out)
    opened = open_model(model, device)
    sentences = list(tagged(file))
    words = [word for each in sentences for word in each.words]
    labels = [label for each in sentences for label in each.tags]
    rows, probes = [], []
    layers = word_vectors(opened, [each.words for each in sentences])
    for layer, (name, vectors) in enumerate(layers.items()):
        probe = fit_probe(vectors, labels, words, tensor=name)
        probes.append(probe)
        rows.append((f"{layer}", probe.accuracy, probe.control_accuracy, probe.selectivity))
    if out is not None:
        max(probes, key=lambda probe: probe.selectivity).save(out)
    titles = ("layer", "accuracy", "control accuracy", "selectivity")
    report = {"layers": [dict(zip(titles[1:], row[1:], strict=True)) for row in rows]}
    _print(report, as_json, [f"{len(words):,} words"], (titles, rows))


@app.command("lens")
@with_paths
def explain_lens(
    model: str = MODEL,
    file: Path = typer.Argument(help="Texts to train the lens on, one per line."),
    out: Path | None = typer.Option(None, help="Save the lens: a .safetensors file."),
    steps: int = typer.Option(200, min=1, help="Of training."),
    device: str = DEVICE, as_json: bool = JSON,
) -> None:  # fmt: skip
    """Train a tuned lens, and compare it with the logit lens on every tenth text."""
    from glassformer.interpret.tuned_lens import fit_tuned_lens, logit_lens

    _check_folder(out)
    opened = _open_single_stack(model, device, "lens")
    lines = [_input(opened, line, "") for line in _lines(file)]
    if len(lines) < 2:
        raise InputError(f"{file}: one text: write two at least, to train on and to measure on")
    valid = lines[::10]
    train = [line for number, line in enumerate(lines) if number % 10]
    lens = fit_tuned_lens(opened, train, steps=steps)
    if out is not None:
        lens.save(out)
    plain, tuned = (each.distances(opened, valid).tolist() for each in (logit_lens(opened), lens))
    report = {"logit_lens": plain, "tuned_lens": tuned, "texts": len(valid)}
    rows = [(f"{i}", *pair) for i, pair in enumerate(zip(plain, tuned, strict=True))]
    head = [f"KL(model ‖ lens) in nats, of {len(valid)} texts that were not trained on"]
    _print(report, as_json, head, (("layer", "logit lens", "tuned lens"), rows))


def _input(model: Model, text: str, target: str) -> Any:
    """What `record` takes; a model without a tokenizer reads numbers."""
    from glassformer.inference.recording import read_ids

    if model.config.family == "seq2seq":
        return text, target
    return text if model.tokenizer is not None else read_ids(text)


def _lines(file: Path) -> list[str]:
    """The texts of a file, one per line, without blank ones."""
    lines = [line for line in texts(None, file) if line.strip()]
    if not lines:
        raise InputError(f"{file}: it has no text: write one per line")
    return lines


def _open_single_stack(name: str, device: str, command: str) -> Model:
    model = open_model(name, device)
    if model.config.family == "seq2seq":
        raise InputError(f"{command}: load an encoder or a decoder")
    return model


def _check_folder(file: Path | None) -> None:
    """Refuse a file that cannot be written before anything is computed for it."""
    if file is not None and not file.absolute().parent.is_dir():
        raise InputError(f"{file}: there is no folder {file.parent}: make it first")


def _about(contrast: Contrast) -> dict[str, Any]:
    first, second = contrast.words
    return {
        "tokens": contrast.tokens, "source_tokens": contrast.source_tokens,
        "position": contrast.position, "answer": first, "other": second,
    }  # fmt: skip


def _print(
    report: dict[str, Any], as_json: bool, lines: Iterable[str],
    table: tuple[Sequence[str], Iterable[Sequence[str | float]]],
) -> None:  # fmt: skip
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for line in lines:
        console.print(line, markup=False)
    console.print(listing(*table))
