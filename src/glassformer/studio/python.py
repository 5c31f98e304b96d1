"""The Python that does what a run did: to read, to learn from, and to run."""

from __future__ import annotations

from typing import Any

from glassformer.studio.reading import read
from glassformer.studio.runs import RecordedRun
from glassformer.studio.samples import Served
from glassformer.studio.training import at_step
from glassformer.studio.writing import Wrote


def code(run: RecordedRun, served: Served | None) -> str:
    """Ends with `trace`, what the pages show."""
    if served is None:
        return 'import glassformer as gf\n\ntrace = gf.Trace.load("run.gftrace")'
    return "\n".join(
        [
            "import glassformer as gf",
            *_imports(run, served),
            "",
            _opened(run, served),
            f"text = {run.what!r}",
            *_recorded(run),
        ]
    )


def _imports(run: RecordedRun, served: Served) -> list[str]:
    ask = run.ask
    calls = {"heads_off": ask.off, "patched": ask.patches, "swapped": ask.swaps}
    used = [name for name, changes in calls.items() if changes]
    lines = [f"from glassformer.glass import {', '.join(used)}"] if used else []
    if not served.folder:
        lines.append("from glassformer.studio.toys import toy")
    return lines


def _opened(run: RecordedRun | Wrote, served: Served) -> str:
    if not served.folder:
        return f"model = toy({served.name!r}).model"
    if served.run is not None and run.ask.step is not None:
        return f"model = gf.load({at_step(served.run, run.ask.step).as_posix()!r})"
    return f"model = gf.load({served.folder!r})"


def _recorded(run: RecordedRun) -> list[str]:
    ask = run.ask
    if not (ask.off or ask.swaps or ask.patches):
        return ["trace = gf.record(model, text)"]
    lines = ["before = gf.record(model, text)"] if ask.off else []
    if ask.patches:
        lines.append(f"other = gf.record(model, {_other(run)!r})")
    changes = [f"heads_off(before, {list(ask.off)!r})"] if ask.off else []
    for side in ("encoder", "decoder"):
        words = {place: word for at, place, word in ask.swaps if at == side}
        if words:
            changes.append(f"swapped(model, {side!r}, {words!r})")
        places = [tuple(each) for at, *each in ask.patches if at == side]
        if places:
            changes.append(f"patched(other, {side!r}, {places!r})")
    return [
        *lines,
        "trace = gf.record(model, text, edit={",
        *(f"    **{change}," for change in changes),
        "})",
    ]


def _other(run: RecordedRun) -> Any:
    """The other text, as `record` takes it: with the same target, where there is one."""
    found = read(run.whole, run.ask.other or "")
    return (found.ids, run.what[1]) if run.trace.source_tokens else found.what


def writing(wrote: Wrote, served: Served) -> str:
    """Ends with `written`: the text of Generate, and its log-probabilities."""
    ask = wrote.ask
    given = ask.model_dump(
        exclude={"model", "step", "text", "taken"}, exclude_unset=True, exclude_none=True
    )
    settings = [f"{name}={value!r}" for name, value in given.items()]
    toy = ["from glassformer.studio.toys import toy"] if not served.folder else []
    return "\n".join(
        [
            "import glassformer as gf",
            *toy,
            "",
            _opened(wrote, served),
            f"text = {read(served.model, ask.text).what!r}",
            *(["# the words that were taken by hand are not in this"] if ask.taken else []),
            f"(written,) = model.generate({', '.join(['text', *settings, 'logprobs=True'])})",
        ]
    )
