"""The Python that does what a run did: to read, to learn from, and to run."""

from __future__ import annotations

from glassformer.loaded import Model
from glassformer.studio.runs import Run
from glassformer.studio.samples import Served
from glassformer.studio.toys import TOYS


def code(run: Run, served: Served | None) -> str:
    """Ends with `trace`, what the pages show."""
    if served is None:
        return 'import glassformer as gf\n\ntrace = gf.Trace.load("run.gftrace")'
    return "\n".join(
        [
            "import glassformer as gf",
            *_imports(run, served),
            "",
            _opened(served),
            f"text = {_text(run, served.model)}",
            *_recorded(run),
        ]
    )


def _imports(run: Run, served: Served) -> list[str]:
    used = ["heads_off"] if run.ask.off else []
    lines = [f"from glassformer.glass import {', '.join(used)}"] if used else []
    if served.name in TOYS:
        lines.append("from glassformer.studio.toys import toy")
    return lines


def _opened(served: Served) -> str:
    if served.name in TOYS:
        return f"model = toy({served.name!r}).model"
    return f"model = gf.load({served.name!r})"


def _text(run: Run, model: Model) -> str:
    """As `record` takes it; ids where the text alone would not give the same."""
    return repr(run.what)


def _recorded(run: Run) -> list[str]:
    if not run.ask.off:
        return ["trace = gf.record(model, text)"]
    return [
        "before = gf.record(model, text)",
        "trace = gf.record(model, text, edit={",
        f"    **heads_off(before, {[tuple(each) for each in run.ask.off]!r}),",
        "})",
    ]
