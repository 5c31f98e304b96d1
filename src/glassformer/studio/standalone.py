"""The studio as one file: its pages, with the answers to all that they may ask.

The same modules as in the browser, in one script: each becomes a function that returns what it
exports. The script's hash is in the file's own policy, so that nothing else can run in it.
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

WEB = Path(__file__).parent / "web"
MAIN = "main"
IMPORT = re.compile(r'^import (?:\{ ([\w, ]+) \}|\* as (\w+)) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
LEFT = re.compile(r"^(?:import|export)\b.*|</script|<!--", re.MULTILINE | re.IGNORECASE)
SHEET = re.compile(r'<link rel="stylesheet" href="(.*)">\n *')
PLACE = '<script type="application/json" id="held">null</script>'  # where the answers go
Answer = BaseModel | Tensor


def flat(modules: Mapping[str, str], main: str) -> str:
    """One script of several modules, those that are imported first."""
    done: dict[str, str] = {}

    def add(name: str, within: tuple[str, ...] = ()) -> None:
        if name in done:
            return
        if name in within:
            raise ValueError(f"modules import each other: {' → '.join((*within, name))}")
        for _, _, needed in IMPORT.findall(modules[name]):
            add(needed, (*within, name))
        done[name] = _function(name, modules[name])

    add(main)
    return "\n".join(done.values())


def _function(name: str, source: str) -> str:
    exported = [found for _, found in EXPORT.findall(source)]
    body = IMPORT.sub(lambda m: f"const {m[2] or f'{{ {m[1]} }}'} = ${m[3]};", source)
    body = EXPORT.sub(r"\1", body)
    left = LEFT.search(body)
    if left is not None:
        raise ValueError(f"{name}.js: {left[0]!r} cannot stand in one script with others")
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


@functools.cache
def shell() -> str:
    """The page without its answers."""
    page = (WEB / "index.html").read_text("utf-8")
    style = "\n" + "".join((WEB / name).read_text("utf-8") for name in SHEET.findall(page))
    script = "\n" + flat({path.stem: path.read_text("utf-8") for path in WEB.glob("*.js")}, MAIN)
    icon = base64.b64encode((WEB / "icon.svg").read_bytes()).decode()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    page = SHEET.sub("", page)
    page = re.sub(r' *<link rel="modulepreload".*\n', "", page)
    for old, new in {
        '<meta charset="utf-8">': '<meta charset="utf-8">\n'
        f'  <meta http-equiv="Content-Security-Policy" content="{policy}">',
        'href="icon.svg"': f'href="data:image/svg+xml;base64,{icon}"',
        '<script type="module" src="main.js"></script>': f"<style>{style}</style>",
        "</body>": f'  {PLACE}\n  <script type="module">{script}</script>\n</body>',
    }.items():
        assert page.count(old) == 1, old  # noqa: S101 - our own page
        page = page.replace(old, new)
    return page


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(address: str, pages: Sequence[str], answers: Mapping[str, Answer]) -> str:
    """The whole file: it opens at `address`, with these pages in its bar."""
    held = {
        "address": address,
        "pages": pages,
        "answers": {k: _plain(v) for k, v in answers.items()},
    }
    return shell().replace(PLACE, PLACE.replace("null", as_data(held)))


def as_data(value: Any) -> str:
    """JSON that can stand in a page: no text in it ends the element it is in."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _plain(answer: Answer) -> Any:
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    data = base64.b64encode(answer.numpy().tobytes()).decode()
    return {"bytes": data, "shape": list(answer.shape)}
