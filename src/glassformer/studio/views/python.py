"""Python code that reproduces a run."""

from __future__ import annotations

from typing import Any

from glassformer.studio.checkpoints import at_step
from glassformer.studio.runs import RecordedRun
from glassformer.studio.samples import ServedModel
from glassformer.studio.tokenization import tokenize
from glassformer.studio.views.generation import RecordedGeneration


def run_code(run: RecordedRun, served: ServedModel | None) -> str:
    """Code that ends with `trace`, which the pages show. `served` is None for an uploaded trace."""
    if served is None:
        return 'import glassformer as gf\n\ntrace = gf.Trace.load("run.gftrace")'
    return "\n".join(
        [
            "import glassformer as gf",
            *_imports(run, served),
            "",
            _load_line(run.request.step, served),
            f"text = {run.inputs!r}",
            *_record_lines(run),
        ]
    )


def _imports(run: RecordedRun, served: ServedModel) -> list[str]:
    request = run.request
    calls = {
        "heads_off": request.off, "patched": request.patches, "swapped": request.swaps,
        "units_off": request.units,
    }  # fmt: skip
    used = [name for name, changes in calls.items() if changes]
    lines = [f"from glassformer.glass import {', '.join(used)}"] if used else []
    if not served.folder:
        lines.append("from glassformer.studio.toys import toy")
    return lines


def _load_line(step: int | None, served: ServedModel) -> str:
    if not served.folder:
        return f"model = toy({served.name!r}).model"
    if served.run is not None and step is not None:
        return f"model = gf.load({at_step(served.run, step).as_posix()!r})"
    if served.adapter:
        return f"model = gf.load({served.folder!r}, adapter={served.adapter!r}).merge_adapter()"
    return f"model = gf.load({served.folder!r})"


def _record_lines(run: RecordedRun) -> list[str]:
    request = run.request
    if not (request.off or request.swaps or request.patches or request.units):
        return ["trace = gf.record(model, text)"]
    lines = ["before = gf.record(model, text)"] if request.off else []
    if request.patches:
        lines.append(f"other = gf.record(model, {_other(run)!r})")
    changes = [f"heads_off(before, {list(request.off)!r})"] if request.off else []
    if request.units:
        changes.append(f"units_off({list(request.units)!r})")
    for side in ("encoder", "decoder"):
        words = {place: word for at, place, word in request.swaps if at == side}
        if words:
            changes.append(f"swapped(model, {side!r}, {words!r})")
        places = [tuple(each) for at, *each in request.patches if at == side]
        if places:
            changes.append(f"patched(other, {side!r}, {places!r})")
    return [
        *lines,
        "trace = gf.record(model, text, edit={",
        *(f"    **{change}," for change in changes),
        "})",
    ]


def _other(run: RecordedRun) -> Any:
    """The donor text, as `record` takes it: with the same target if there is one."""
    text = tokenize(run.loaded_model, run.request.other or "")
    return (text.ids, run.inputs[1]) if run.trace.source_tokens else text.inputs


def cause_code(run: RecordedRun, served: ServedModel, name: str, *lines: str) -> str:
    """Code that ends with `lines`, which use the model, its text and this name of `interpret`."""
    toy = ["from glassformer.studio.toys import toy"] if not served.folder else []
    return "\n".join(
        [
            "import glassformer as gf",
            f"from glassformer.interpret import {name}",
            *toy,
            "",
            _load_line(run.request.step, served),
            f"text = {run.inputs!r}",
            *lines,
        ]
    )


def pooling_code(served: ServedModel, step: int | None, text: str) -> str:
    """Code that ends with the weights of a document's words."""
    return "\n".join(
        [
            "import glassformer as gf",
            "",
            _load_line(step, served),
            f'trace = gf.record(model, {text!r}, keep="important.*")',
            'words = trace["important.words.weights"]',
        ]
    )


def variants_code(text: str, vectors: str) -> str:
    """Code that trains the variants of pooling on the toy reviews and records each of them."""
    return "\n".join(
        [
            "import glassformer as gf",
            "from glassformer.studio.pooling_toys import random_vectors, train_variants",
            "from glassformer.studio.views.pooling import toy_vectors",
            "",
            f"models = train_variants({vectors})",
            f'traces = [gf.record(model, {text!r}, keep="important.*") for model in models]',
        ]
    )


def generation_code(recorded: RecordedGeneration, served: ServedModel) -> str:
    """Code that ends with `generation`: its text and log-probabilities."""
    request = recorded.request
    options = request.model_dump(
        exclude={"model", "step", "text", "taken"}, exclude_unset=True, exclude_none=True
    )
    settings = [f"{name}={value!r}" for name, value in options.items()]
    toy = ["from glassformer.studio.toys import toy"] if not served.folder else []
    return "\n".join(
        [
            "import glassformer as gf",
            *toy,
            "",
            _load_line(request.step, served),
            f"text = {tokenize(served.model, request.text).inputs!r}",
            *(["# without the tokens that were chosen by hand"] if request.taken else []),
            f"(generation,) = model.generate({', '.join(['text', *settings, 'logprobs=True'])})",
        ]
    )
