"""The page Causes: each method of `interpret` as tables, curves and a graph."""

from __future__ import annotations

from collections.abc import Callable

from glassformer.errors import InputError
from glassformer.glass.lens import output_side
from glassformer.interpret import (
    edge_effects,
    fit_probe,
    fit_tuned_lens,
    input_attribution,
    logit_lens,
    steering_vector,
    word_vectors,
)
from glassformer.interpret.circuits import Circuit
from glassformer.interpret.contrast import Contrast
from glassformer.interpret.split import Node
from glassformer.loaded import Model, record
from glassformer.studio.cause_schemas import (
    CauseCurve,
    CauseEdge,
    CauseNode,
    CauseRequest,
    Causes,
)
from glassformer.studio.jobs import Report
from glassformer.studio.page_schemas import Sheet
from glassformer.studio.runs import RecordedRun
from glassformer.studio.samples import ServedModel, samples
from glassformer.studio.schemas import Token
from glassformer.studio.tokenization import tokenize
from glassformer.studio.views.predictions import readable
from glassformer.studio.views.python import cause_code

LENS_STEPS = 40
TOP = 5
Answer = tuple[Causes, tuple[str, ...]]  # and the name in `interpret` with the lines that use it


def explained(
    request: CauseRequest, run: RecordedRun, other: RecordedRun | None, served: ServedModel,
    report: Report,
) -> Causes:  # fmt: skip
    """What a method says about a run; `other` is the run of the corrupted text, for a circuit."""
    methods: dict[str, Callable[[], Answer]] = {
        "input": lambda: _input(request, run),
        "circuit": lambda: _circuit(request, run, other),
        "steer": lambda: _steer(request, run),
        "probe": lambda: _probe(request, run),
        "lens": lambda: _lens(request, run, [each.text for each in samples(served)], report),
    }
    answer, (name, *lines) = methods[request.kind]()
    return answer.model_copy(update={"python": cause_code(run, served, name, *lines)})


def _input(request: CauseRequest, run: RecordedRun) -> Answer:
    model, method, token = run.loaded_model, request.method, request.token
    result = input_attribution(model, run.inputs, method=method, position=token)
    first, second = _words(result.contrast)
    tokens: dict[str, list[Token]] = {str(name): row for name, row in run.tokens.items()}
    rows: list[list[str | float | None]] = [
        [token.text, score]
        for stack, scores in result.scores.items()
        for token, score in zip(tokens[stack], scores.tolist(), strict=True)
    ]
    control, curve = result.random_weight_control(), result.deletion_curve()
    gap = "this method has none" if result.gap is None else f"{result.gap:.1%}".replace("%", " %")
    title = f"logit “{first}” − logit “{second}” = {result.difference:.2f}"
    checks: list[list[str | float | None]] = [
        ["completeness gap", gap],
        ["rank correlation with random weights", control],
        ["difference without any word", result.baseline],
    ]
    return Causes(
        sheets=[
            Sheet(title=title, text="The score of each token.", columns=["token", "score"],
                  rows=rows),
            Sheet(title="How much to believe it", columns=["check", "value"], rows=checks,
                  text="A gap and a correlation near 0 are good. A curve that falls at once says "
                  "that the words with the largest scores matter."),
        ],
        python="",
        conclusion=title,
        places=[f"{count} left out" for count in range(len(curve))],
        curves=[CauseCurve(name="without the best words", values=curve)],
    ), (
        "input_attribution",
        f"result = input_attribution(model, text, method={method!r}, position={token})",
        "scores, gap, curve = result.scores, result.gap, result.deletion_curve()",
        "control = result.random_weight_control()",
    )  # fmt: skip


def _circuit(request: CauseRequest, run: RecordedRun, other: RecordedRun | None) -> Answer:
    if other is None:
        raise InputError("a circuit needs another sentence: write one with other words")
    if (other.request.model, other.request.step) != (run.request.model, run.request.step):
        raise InputError("only two texts of the same model have a circuit")
    corrupted = other.inputs
    if run.trace.source_tokens:
        corrupted = (other.inputs[0], run.inputs[1])  # both with the same translation so far
    effects = edge_effects(run.loaded_model, run.inputs, corrupted, position=request.token)
    circuit = effects.circuit(min(request.edges, len(effects.edges)))
    count, (first, second) = len(circuit.edges), _words(effects.clean)
    control = effects.random_weight_control(count)
    title = f"{count} of {len(effects.edges)} edges: faithfulness {circuit.faithfulness:.2f}"
    facts: list[list[str | float | None]] = [
        [f"logit “{first}” − logit “{second}”", effects.clean.value()],
        ["the same for the other sentence", effects.corrupted.value()],
        ["faithfulness of these edges", circuit.faithfulness],
        ["faithfulness of as many edges that random weights choose", control],
        ["edges on a way from an embedding to the logits", float(len(circuit.connected))],
    ]
    rows: list[list[str | float | None]] = [
        [str(edge.writer), str(edge.reader), edge.effect] for edge in circuit.edges
    ]
    nodes, edges = _graph(circuit)
    return Causes(
        sheets=[
            Sheet(title=title, columns=["what", "value"], rows=facts),
            Sheet(title="The strongest edges", columns=["from", "to", "effect of corrupting it"],
                  rows=rows),
        ],
        python="", conclusion=title, nodes=nodes, edges=edges,
    ), (
        "edge_effects",
        f"effects = edge_effects(model, text, {corrupted!r}, position={request.token})",
        f"circuit = effects.circuit({count})",
        f"control = effects.random_weight_control({count})",
    )  # fmt: skip


def _graph(circuit: Circuit) -> tuple[list[CauseNode], list[CauseEdge]]:
    """The connected edges, with the embedding at the bottom and the logits on top."""
    edges = circuit.connected
    parts = {node for edge in edges for node in (edge.writer, edge.reader)}
    levels = sorted({_level(node) for node in parts})
    columns = sorted({_column(node) for node in parts})
    nodes, numbers = [], {}
    for node in sorted(parts, key=lambda node: (_level(node), node)):
        numbers[node] = len(nodes)
        x = (columns.index(_column(node)) + 0.5) / len(columns)
        y = 1 - levels.index(_level(node)) / max(1, len(levels) - 1)
        nodes.append(CauseNode(name=str(node), x=x, y=y))
    return nodes, [
        CauseEdge(writer=numbers[each.writer], reader=numbers[each.reader], effect=each.effect)
        for each in edges
    ]


def _level(node: Node) -> tuple[int, int, int]:
    """The order of computation: encoder, decoder; layers; heads, cross attention, MLP."""
    kinds = ("embedding", "head", "cross_head", "mlp", "logits")
    return (node.stack != "encoder", node.layer, kinds.index(node.kind))


def _column(node: Node) -> tuple[bool, int]:
    """Heads stand by their numbers, MLPs to their right, embeddings and logits to their left."""
    return (node.kind == "mlp", -1 if node.head is None else node.head)


def _steer(request: CauseRequest, run: RecordedRun) -> Answer:
    model, stack = _one_stack(run, "steering"), output_side(run.loaded_model.task)
    kinds = [
        [tokenize(model, line).inputs for line in _lines(text)]
        for text in (request.towards, request.away)
    ]
    vector = steering_vector(model, *kinds, layer=request.layer, stack=stack)
    traces = [
        record(model, run.inputs, keep="logits", edit=edit)
        for edit in (None, vector.edit(request.strength))
    ]
    if not 0 <= request.token < len(traces[0].tokens):
        last = len(traces[0].tokens) - 1
        raise InputError(f"token {request.token}: this text has tokens 0 to {last}")
    chances = [trace["logits"][request.token].softmax(-1).topk(TOP) for trace in traces]
    rows: list[list[str | float | None]] = [
        [
            cell
            for best in chances
            for cell in (readable(model, int(best.indices[rank])), float(best.values[rank]))
        ]
        for rank in range(TOP)
    ]
    title = f"before “{rows[0][0]}”, steered “{rows[0][2]}”"
    text = f"The mean of the first texts minus the mean of the others, times {request.strength:g}, "
    text += f"is added to the output of layer {request.layer} at every token."
    columns = ["before", "probability", "steered", "probability"]
    return Causes(
        sheets=[Sheet(title=title, text=text, columns=columns, rows=rows)], python="",
        conclusion=title,
    ), (
        "steering_vector",
        f"vector = steering_vector(model, {kinds[0]!r}, {kinds[1]!r}, layer={request.layer}, "
        f"stack={stack!r})",
        f"trace = gf.record(model, text, edit=vector.edit({request.strength!r}))",
    )  # fmt: skip


def _probe(request: CauseRequest, run: RecordedRun) -> Answer:
    model, sentences, labels = _one_stack(run, "probing"), [[]], []
    for number, line in enumerate(request.labelled.splitlines(), 1):
        match line.split():
            case []:
                sentences.append([])
            case [word, label]:
                sentences[-1].append(word)
                labels.append(label)
            case _:
                raise InputError(f"line {number}: write a word and its label, or nothing")
    texts = [words for words in sentences if words]
    words = [word for each in texts for word in each]
    rows: list[list[str | float | None]] = []
    for layer, (name, vectors) in enumerate(word_vectors(model, texts).items()):
        probe = fit_probe(vectors, labels, words, tensor=name)
        rows.append([f"{layer}", probe.accuracy, probe.control_accuracy, probe.selectivity])
    title = f"A linear probe of {len(words)} words"
    columns = ["layer", "accuracy", "of random labels", "selectivity"]
    text = "The accuracy on words that it was not fitted to, the accuracy of a probe of random "
    text += "labels for each word, and their difference."
    curves = [CauseCurve(name=columns[i], values=[float(row[i] or 0) for row in rows])
              for i in (1, 2)]  # fmt: skip
    return Causes(
        sheets=[Sheet(title=title, text=text, columns=columns, rows=rows)], python="",
        conclusion=title, places=[f"layer {i}" for i in range(len(rows))], curves=curves,
    ), (
        "fit_probe, word_vectors",
        f"sentences, labels = {texts!r}, {labels!r}",
        "words = [word for each in sentences for word in each]",
        "layers = word_vectors(model, sentences)",
        "probes = [fit_probe(vectors, labels, words) for vectors in layers.values()]",
    )  # fmt: skip


def _lens(request: CauseRequest, run: RecordedRun, texts: list[str], report: Report) -> Answer:
    model = _one_stack(run, "the tuned lens")
    lines = _lines(request.texts) or texts
    inputs = [tokenize(model, line).inputs for line in lines]
    if len(inputs) < 2:
        raise InputError("write two texts at least, one per line: to train on and to measure on")
    held = inputs[::10]
    train = [each for number, each in enumerate(inputs) if number % 10]
    lens = fit_tuned_lens(
        model, train, steps=LENS_STEPS, on_step=lambda n, _: report("step", n, LENS_STEPS)
    )
    plain, tuned = (each.distances(model, held).tolist() for each in (logit_lens(model), lens))
    title = f"Trained for {LENS_STEPS} steps on {len(train)} texts"
    text = f"KL(model ‖ lens) in nats, of texts that it was not trained on ({len(held)})."
    rows: list[list[str | float | None]] = [
        [f"{layer}", *pair] for layer, pair in enumerate(zip(plain, tuned, strict=True))
    ]
    names = ["logit lens", "tuned lens"]
    return Causes(
        sheets=[Sheet(title=title, text=text, columns=["layer", *names], rows=rows)], python="",
        conclusion=title, places=[f"layer {i}" for i in range(len(rows))],
        curves=[CauseCurve(name=n, values=v) for n, v in zip(names, (plain, tuned), strict=True)],
    ), (
        "fit_tuned_lens, logit_lens",
        f"texts = {inputs!r}",
        "train = [text for number, text in enumerate(texts) if number % 10]",
        f"lens = fit_tuned_lens(model, train, steps={LENS_STEPS})",
        "distances = lens.distances(model, texts[::10])",
    )  # fmt: skip


def _one_stack(run: RecordedRun, name: str) -> Model:
    if run.trace.source_tokens:
        raise InputError(f"{name} is for models of one stack: choose an encoder or a decoder")
    return run.loaded_model


def _words(contrast: Contrast) -> tuple[str, str]:
    model = contrast.model
    return readable(model, contrast.answer), readable(model, contrast.other)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
