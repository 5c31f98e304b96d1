"""Makes docs/live/: pages of the studio as it exports them, to play with before installing.

python docs/live.py            with a Chromium on the path, or named in GLASSFORMER_CHROMIUM
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from playwright.sync_api import Page, sync_playwright

from glassformer.cli.studio import serve
from glassformer.studio.app import create_app
from glassformer.studio.standalone import DONE

HOME = Path(__file__).parent / "live"
MAX_BYTES = 400_000
KEYS = "The keys to the cabinet [MASK] on the table."
PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "model": ("model", {"m": "gf-encoder", "x": KEYS, "find": "[MASK]>keys"}),
    "map": (
        "map",
        {"m": "gf-encoder", "x": "The pizza came out of the oven and it tasted good!",
         "find": "it>pizza"},
    ),
    "translate": ("translate", {"m": "gf-en-ru", "x": "She was tired."}),
}  # fmt: skip


@contextmanager
def studio() -> Iterator[str]:
    """A studio with the models of PAGES."""
    names = sorted({state["m"] for _, state in PAGES.values()})
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        app = create_app(serve(names, "cpu"), port=port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
        server.should_exit = True
        thread.join()


def export(page: Page, address: str, to: Path) -> None:
    """The page at an address as one HTML file."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_function(DONE)
    page.get_by_role("button", name="Export").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML", exact=True).click()
    download.value.save_as(to)


def main() -> None:
    chromium = os.environ.get("GLASSFORMER_CHROMIUM") or shutil.which("chromium")
    HOME.mkdir(exist_ok=True)
    with studio() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(60_000)
        for name, (where, state) in PAGES.items():
            to = HOME / f"{name}.html"
            export(page, f"{url}#/{where}?{urlencode(state)}", to)
            size = to.stat().st_size
            if size > MAX_BYTES:
                raise SystemExit(f"{to}: {size:,} bytes: choose a shorter text")
        browser.close()


if __name__ == "__main__":
    main()
