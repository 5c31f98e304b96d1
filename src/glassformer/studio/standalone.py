"""The studio's script and style, each as one file; and the studio as one HTML file with both.

The modules of web/ become one script, without comments: each is a function that returns its
exports. The HTML file also has the API responses that its pages may request. The script's hash is
in its Content-Security-Policy, so that nothing else can run in it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch import Tensor

from glassformer.studio.views.encode import EncodedPicture

WEB = Path(__file__).parent / "web"
MAIN = "main"
SHEETS = ("style", "pages", "model", "vectors", "drawer")  # later rules win
SCRIPT_TAG = '<script type="module" src="studio.js"></script>'
STYLE_TAG = '<link rel="stylesheet" href="studio.css">'
IMPORT = re.compile(r'^import (?:\{ ([\w, ]+) \}|\* as (\w+)) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
COMMENT = re.compile(
    r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE
)  # on lines of its own
INDENT = re.compile(r"^ +", re.MULTILINE)
CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CSS_SPACE = re.compile(r"(?<=[:;,{}])\s+|\s+(?=[{}])")  # it means nothing there
UNSUPPORTED = re.compile(r"^(?:import|export)\b.*|</script|<!--", re.MULTILINE | re.IGNORECASE)
DONE = "() => live.textContent && document.querySelector('#page').ariaBusy === 'false'"  # drawn
DATA = '<script type="application/json" id="held">null</script>'  # where the responses go
ResponseContent = BaseModel | Tensor | EncodedPicture


def bundle(modules: Mapping[str, str], main: str) -> str:
    """One script from several modules, each after those that it imports."""
    functions: dict[str, str] = {}

    def add(name: str, within: tuple[str, ...] = ()) -> None:
        if name in functions:
            return
        if name in within:
            raise ValueError(f"circular imports: {' → '.join((*within, name))}")
        for _, _, needed in IMPORT.findall(modules[name]):
            add(needed, (*within, name))
        functions[name] = _function(name, modules[name])

    add(main)
    return "\n".join(functions.values())


def _function(name: str, source: str) -> str:
    exported = [export for _, export in EXPORT.findall(source)]
    body = IMPORT.sub(lambda m: f"const {m[2] or f'{{ {m[1]} }}'} = ${m[3]};", source)
    body = EXPORT.sub(r"\1", body)
    unsupported = UNSUPPORTED.search(body)
    if unsupported is not None:
        raise ValueError(f"{name}.js: {unsupported[0]!r} cannot be bundled")
    body = INDENT.sub("", COMMENT.sub("", body))
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


@functools.cache
def script() -> str:
    """All modules of web/ as one."""
    return bundle({path.stem: path.read_text("utf-8") for path in WEB.glob("*.js")}, MAIN)


@functools.cache
def style() -> str:
    """All style sheets of web/ as one, without comments."""
    sheets = "".join((WEB / f"{name}.css").read_text("utf-8") for name in SHEETS)
    return CSS_SPACE.sub("", CSS_COMMENT.sub("", sheets))


@functools.cache
def template() -> str:
    """The page without any responses."""
    page = (WEB / "index.html").read_text("utf-8")
    code, rules = f"\n{script()}", f"\n{style()}"
    icon = base64.b64encode((WEB / "icon.svg").read_bytes()).decode()
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(rules)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    for old, new in {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n'
        f'  <meta http-equiv="Content-Security-Policy" content="{policy}">',
        'href="icon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        f"  {SCRIPT_TAG}\n": "",
        STYLE_TAG: f"<style>{rules}</style>",
        "</body>": f'  {DATA}\n  <script type="module">{code}</script>\n</body>',
    }.items():
        assert page.count(old) == 1, old  # noqa: S101 - our own page
        page = page.replace(old, new)
    return page


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(address: str, pages: Sequence[str], answers: Mapping[str, ResponseContent]) -> str:
    """The whole file: it opens at `address`, has these pages, and `answers` by their URLs."""
    content = {
        "address": address,
        "pages": pages,
        "answers": {k: _plain(v) for k, v in answers.items()},
    }
    return template().replace(DATA, DATA.replace("null", as_data(content)))


def as_data(value: Any) -> str:
    """JSON that is safe inside a script element: it cannot contain a closing tag."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _plain(answer: ResponseContent) -> Any:
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    values, power = answer if isinstance(answer, EncodedPicture) else EncodedPicture(answer)
    data = base64.b64encode(values.numpy().tobytes()).decode()
    return {"bytes": data, "shape": list(values.shape), "power": power}
