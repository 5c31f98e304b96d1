"""Pictures for docs/: `python tests/browser/studio_pictures.py`, with a Chromium on the path.

Lab and Compare on the toys, Training on a small run of its own.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[2] / "docs"
SIZES = {"": (1280, 720), "-small": (390, 844)}
READY = "() => document.querySelector('#live').textContent"
LAB = "off=encoder.0.1&sw=encoder.2.ate&o=I+sat+by+the+river+bank.&pa=encoder.0.6.5&q=2&l=1&h=1"
PAGES = {  # by name: which studio, and the address
    "lab": ("toys", f"lab?{LAB}"),
    "compare": ("toys", "compare?o=I+deposited+%5BMASK%5D+in+the+river.&l=1"),
    "training": ("run", "training?cp=60&l=1&x=The+cat+sat+on"),
}
RECIPE = """
name = "run"
data.train = "texts.txt"
tokenizer = {kind = "bpe", vocab_size = 300}
model = {preset = "gpt2", width = 32, depth = 2, heads = 4, mlp_width = 64}
objective = {kind = "next_word", length = 32}
[train]
steps = 120
tokens = 512
evaluate_every = 20
save_every = 20
keep = 8
learning_rate = 4e-3
"""
TEXT = """The cat of house {n} sat on the mat. It was a warm day, and the dog slept.

A man ordered the chicken at table {n}. The waiter brought it soon, and it tasted good!

"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        home = Path(name)
        (home / "texts.txt").write_text("".join(TEXT.format(n=n) for n in range(200)))
        (home / "run.toml").write_text(RECIPE)
        call = [sys.executable, "-m", "glassformer"]
        subprocess.run([*call, "pretrain", "run.toml"], cwd=home, check=True, capture_output=True)
        studios = {"toys": _start(call, home), "run": _start([*call], home, "runs/run")}
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            for theme in ("light", "dark"):
                for suffix, (width, height) in SIZES.items():
                    page = browser.new_page(
                        viewport={"width": width, "height": height}, color_scheme=theme
                    )
                    for title, (studio, address) in PAGES.items():
                        page.goto("about:blank")
                        page.goto(f"{studios[studio][1]}#/{address}")
                        page.wait_for_function(READY)
                        page.wait_for_timeout(500)
                        page.screenshot(path=DOCS / f"studio-{title}-{theme}{suffix}.png")
                    page.close()
        finally:
            for process, _ in studios.values():
                process.terminate()
                process.wait()


def _start(call: list[str], home: Path, *given: str) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*call, "studio", *given, "--port", str(port), "--no-open"], cwd=home,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/"
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return process, url
        except OSError:
            time.sleep(0.3)
    raise SystemExit("the studio does not answer")


if __name__ == "__main__":
    main()
