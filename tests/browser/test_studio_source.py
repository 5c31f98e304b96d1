"""The pages' source: no markup from strings, nothing inline, nothing from elsewhere, small."""

import re
from pathlib import Path

import pytest

from glassformer.studio.standalone import SHEETS, script

WEB = Path(__file__).parents[2] / "src" / "glassformer" / "studio" / "web"
MODULES = sorted(WEB.glob("*.js"))
BANNED = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "setHTML",
    "createContextualFragment", "eval(", "new Function", "srcdoc", "javascript:",
    "sessionStorage", "document.cookie", "XMLHttpRequest", "WebSocket", "EventSource", "Worker(",
)  # fmt: skip

KEEPS = {"lessons.js"}  # the only module that keeps something in the browser: progress

NAMESPACES = {"http://www.w3.org/1998/Math/MathML", "http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module(path: Path) -> None:
    text = path.read_text()
    assert not [word for word in BANNED if word in text]
    assert ("localStorage" in text) == (path.name in KEEPS)
    assert not re.search(
        r"""set(Timeout|Interval)\(\s*["'`]|\.setAttribute\(["'](on|style)""", text
    )
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= NAMESPACES
    assert text.count("\n") < 400
    for source in re.findall(r"^import .* from \"(.*)\";", text, re.MULTILINE):
        assert (path.parent / source).is_file() and source.startswith("./")


def test_the_page_has_nothing_inline() -> None:
    text = (WEB / "index.html").read_text()
    assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|https?://", text)
    assert re.findall(r"<script[^>]*>", text) == ['<script type="module" src="studio.js">']
    assert re.findall(r'<link rel="stylesheet" href="(.*?)">', text) == ["studio.css"]
    assert sorted(SHEETS) == sorted(path.stem for path in WEB.glob("*.css"))
    for style in (path.read_text() for path in WEB.glob("*.css")):
        assert "url(" not in style and "@import" not in style and style.count("\n") < 400


def test_sizes() -> None:
    assert len(script().encode()) <= 330_000  # all modules, as the browser loads them
    assert sum(path.stat().st_size for path in WEB.iterdir()) <= 400_000


EXPORTED = re.compile(r"^export (?:async )?(?:function\*?|const|class) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r"^import \{ (.*) \} from", re.MULTILINE)


def test_every_exported_name_has_a_use() -> None:
    everything = "\n".join(path.read_text() for path in MODULES)
    used = {name for names in IMPORTED.findall(everything) for name in names.split(", ")}
    used |= set(re.findall(r"\bapi\.(\w+)", everything)) | {"KEYS", "rowsOf"}  # for tests
    assert set(EXPORTED.findall(everything)) <= used
