"""Speed of the studio's pages in a real Chromium, beside BertViz on the same weights.

    python benchmarks/studio.py                     12 layers × 12 heads × 512 tokens
    python benchmarks/studio.py --peer SCRIPTS      and BertViz (pip install bertviz) at 64 tokens
    python benchmarks/studio.py --tiny              small sizes, to check that it runs

BertViz loads require.js, d3.min.js and jquery.min.js from a CDN; here they come from the folder
SCRIPTS, so that the network does not count. First draw is the time from navigation to the finished
page, with weights that are already computed: median / p95 of several loads. An own sentence is one
that the studio has not seen: from Enter to the finished page, the model's work included.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch
import uvicorn
from playwright.sync_api import CDPSession, Page, Route, sync_playwright

import glassformer as gf
from glassformer.pretrained import shipped
from glassformer.studio.app import create_app
from glassformer.studio.samples import ServedModel
from glassformer.studio.standalone import DONE, script

BARS = {"bytes": 600_000, "nodes": 3_000, "heap": 80e6, "js": 330_000, "peer": 20}
BARS |= {"drawn": 500, "frame": 25, "own": 500}  # milliseconds
MAP, MATRIX = ".board canvas", ".matrix-pane canvas"
SIZES = {"full": (12, 12, 512, 64), "tiny": (2, 3, 24, 8)}  # layers, heads, tokens, peer's tokens
DEEP = {"full": (30, 8, 64), "tiny": (3, 2, 8)}  # layers, heads, tokens of the page Model
SENTENCES = ("The {} sat on the mat.", "I saw the {} by the river.", "She gave the {} to him.")
NOUNS = ("cat", "dog", "king", "child", "horse", "book", "letter", "queen")
SWEEP = """async () => {
  const frames = [];
  document.querySelector(".page-model button.main").click();
  let last = performance.now();
  while (document.querySelector(".curtain")) {
    await new Promise((go) => requestAnimationFrame(go));
    frames.push(performance.now() - last);
    last = performance.now();
  }
  return frames;
}"""
DRAWN = "(selector) => document.querySelector(selector)?.dataset.drawn"
PAINTED = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
BYTES = """() => performance.getEntries()
  .reduce((sum, entry) => sum + (entry.encodedBodySize ?? 0), 0)"""
RECOLOUR = """async ([selector, times]) => {
  const canvas = document.querySelector(selector);
  const spent = [];
  for (let i = 0; i < times; i++) {
    const before = canvas.dataset.drawn;
    const start = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }));
    while (canvas.dataset.drawn === before) await new Promise((go) => setTimeout(go));
    spent.push(performance.now() - start);
    await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  }
  return spent;
}"""
PAN = """async ([selector, times]) => {
  const pane = document.querySelector(selector);
  const frames = [];
  let last = performance.now();
  for (let i = 0; i < times; i++) {
    pane.scrollTo(7 * i, 11 * i);
    await new Promise((go) => requestAnimationFrame(go));
    frames.push(performance.now() - last);
    last = performance.now();
  }
  return frames;
}"""


def model_of(layers: int, heads: int, tokens: int) -> gf.Model:
    torch.manual_seed(0)
    config = gf.ModelConfig(
        family="encoder", vocab_size=97, width=8 * heads, depth=layers, heads=heads,
        mlp_width=16 * heads, max_length=tokens, init_std=0.6,
    )  # fmt: skip
    return gf.Model(gf.build_task(config, gf.TaskConfig(kind="masked_lm"))).eval()


@contextmanager
def serving(models: list[ServedModel]) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        app = create_app(models, port=port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
        server.should_exit = True
        thread.join()


def ids(tokens: int) -> str:
    return " ".join(str((7 * i + i // 5) % 97) for i in range(tokens))


def milliseconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return 1e3 * (time.perf_counter() - start)


def opened(page: Page, url: str, selector: str) -> float:
    """Milliseconds from navigation to the finished picture."""

    def load() -> None:
        page.goto(url)
        page.wait_for_function(DRAWN, arg=selector)
        page.evaluate(PAINTED)

    page.goto("about:blank")
    return milliseconds(load)


def heap(devtools: CDPSession) -> float:
    """Objects and the buffers behind them."""
    used = devtools.send("Runtime.getHeapUsage")
    return float(used["usedSize"]) + float(used.get("backingStorageSize", 0))


def line(name: str, value: str, bar: str = "") -> None:
    print(f"{name:<44}{value:>16}   {bar}", flush=True)


def spread(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{statistics.median(times):.1f} / {ordered[int(0.95 * (len(ordered) - 1))]:.1f} ms"


def studio(page: Page, url: str, layers: int, heads: int, tokens: int, runs: int) -> None:
    def at(name: str, **state: object) -> str:
        return f"{url}#/{name}?{urlencode({'x': ids(tokens), **state})}"

    print(f"\n{layers} layers × {heads} heads × {tokens} tokens", flush=True)
    line("JavaScript in all, unpacked", f"{len(script().encode()):,} B", f"≤ {BARS['js']:,}")
    line("first look, the model's work included", f"{opened(page, at('map'), MAP):.0f} ms")
    line("bytes before interactive", f"{page.evaluate(BYTES):,} B", f"≤ {BARS['bytes']:,}")
    line("first draw of the map", spread([opened(page, at("map"), MAP) for _ in range(runs)]))
    line("map re-coloured", spread(page.evaluate(RECOLOUR, [MAP, 5 * runs])))
    devtools = page.context.new_cdp_session(page)
    for head in range(min(6, heads)):
        page.goto(at("head", h=head))
        page.wait_for_function(
            f"(selector) => ({DRAWN})(selector)?.split(',')[3] === '{head}'", arg=MATRIX
        )
    page.wait_for_timeout(300)
    line("heap after the map and six heads", f"{heap(devtools) / 1e6:.1f} MB", "≤ 80")
    line("head re-coloured", spread(page.evaluate(RECOLOUR, [MATRIX, 5 * runs])))
    page.goto(at("head", z=8))
    page.wait_for_timeout(500)
    line("head panned at 8 × (frames)", spread(page.evaluate(PAN, [".matrix-pane", 20 * runs])))
    for name in ("map", "head", "numbers"):
        page.goto(at(name))
        page.wait_for_timeout(1_000)
        count = page.evaluate("document.querySelectorAll('*').length")
        line(f"elements of the page {name}", f"{count:,}", f"≤ {BARS['nodes']:,}")


def model_page(page: Page, layers: int, heads: int, tokens: int, runs: int) -> None:
    """The page Model of a deep model: its drawing, and the frames of its sweep."""

    def load() -> None:
        page.goto(f"{url}#/model?{urlencode({'x': ids(tokens)})}")
        page.wait_for_function(DONE)
        page.evaluate(PAINTED)

    print(f"\nModel, {layers} layers × {tokens} tokens", flush=True)
    with serving([ServedModel("deep", model_of(layers, heads, tokens))]) as url:
        times = []
        for _ in range(runs + 1):
            page.goto("about:blank")
            times.append(milliseconds(load))
        line("first look, the model's work included", f"{times[0]:.0f} ms")
        line("drawn", spread(times[1:]), f"≤ {BARS['drawn']}")
        line("frames of the sweep", spread(page.evaluate(SWEEP)), f"p95 ≤ {BARS['frame']}")


def own_sentences(page: Page, runs: int) -> None:
    """From Enter to the finished page Model, for each shipped model."""
    print("\nown sentence to picture", flush=True)
    names = list(shipped())
    with serving([ServedModel(name, gf.load(name)) for name in names]) as url:
        for name in names:
            page.goto("about:blank")
            page.goto(f"{url}#/model?{urlencode({'m': name})}")
            page.wait_for_function(DONE)
            times = []
            for n in range(3 * runs):
                text = SENTENCES[n % len(SENTENCES)].format(NOUNS[n % len(NOUNS)])
                page.locator("#text").fill(text)
                times.append(milliseconds(lambda text=text: _run(page, text)))
            line(name, spread(times), f"p50 ≤ {BARS['own']}")


def _run(page: Page, text: str) -> None:
    page.keyboard.press("Enter")
    page.wait_for_function(
        "(text) => new URLSearchParams(location.hash.split('?')[1]).get('x') === text", arg=text
    )
    page.wait_for_function(DONE)


def bertviz_page(model: gf.Model, tokens: int, to: Path) -> int:
    """Writes BertViz's model view of the same weights; returns how many lines it will draw."""
    from bertviz import model_view  # type: ignore[import-not-found]

    text = [int(i) for i in ids(tokens).split()]
    trace = gf.record(model, text)
    weights = [each[None] for each in trace.find("*.attention.weights").values()]
    html: Any = model_view(weights, [str(i) for i in text], html_action="return")
    to.write_text(f"<!doctype html><meta charset=utf-8><body>{html.data}</body>")
    return sum(each.numel() for each in weights)


def peer(page: Page, url: str, model: gf.Model, scripts: Path, tokens: int, runs: int) -> None:
    print(f"\nBertViz and the studio, {tokens} tokens", flush=True)
    place = scripts / "bertviz-page.html"
    lines = bertviz_page(model, tokens, place)

    def local(route: Route) -> None:
        name = Path(route.request.url).name.replace("require.min.js", "require.js")
        route.fulfill(path=scripts / name, content_type="text/javascript")

    def draw() -> None:
        page.goto(place.as_uri(), wait_until="commit")
        page.wait_for_function(
            "(lines) => document.getElementsByTagName('line').length >= lines", arg=lines
        )
        page.evaluate(PAINTED)

    ours = f"{url}#/map?{urlencode({'x': ids(tokens)})}"
    opened(page, ours, MAP)  # the model's work, once
    mine = [opened(page, ours, MAP) for _ in range(runs)]
    page.route("https://cdnjs.cloudflare.com/**", local)
    page.set_default_timeout(300_000)
    theirs = milliseconds(draw)
    line("BertViz", f"{theirs / 1e3:.1f} s", f"{place.stat().st_size:,} B, {lines:,} lines")
    line("studio", spread(mine))
    ratio = theirs / statistics.median(mine)
    line("times faster", f"{ratio:.0f}", f"≥ {BARS['peer']}")
    place.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--peer", type=Path, metavar="SCRIPTS")
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args()
    chromium = os.environ.get("GLASSFORMER_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium: install one, or name it in GLASSFORMER_CHROMIUM")
    layers, heads, tokens, few = SIZES["tiny" if asked.tiny else "full"]
    runs = 1 if asked.tiny else asked.runs
    model = model_of(layers, heads, tokens)
    flags = ["--no-sandbox", "--disable-dev-shm-usage"]
    with serving([ServedModel("base", model)]) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        print(f"chromium {browser.version}, load average {os.getloadavg()[0]:.1f}", flush=True)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        studio(page, url, layers, heads, tokens, runs)
        model_page(page, *DEEP["tiny" if asked.tiny else "full"], runs)
        own_sentences(page, runs)
        if asked.peer is None or importlib.util.find_spec("bertviz") is None:
            print("\nBertViz: not measured (needs pip install bertviz and --peer SCRIPTS)")
        else:
            peer(page, url, model, asked.peer, few, runs)
        browser.close()


if __name__ == "__main__":
    main()
