"""A real JupyterLab in a real browser: the pictures in a notebook are the studio's."""

import os
import re
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Frame, Page, expect

from browser.screens import Server, drawn, painted, pixels, table
from ports import free_port

# Looked for, not imported: that alone takes seconds, also where these tests are left out.
MISSING = [name for name in ("jupyterlab", "anywidget") if not find_spec(name)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)}"),
]
MAP, MATRIX = ".board canvas", ".matrix-pane canvas"
SETUP = """
import glassformer as gf
from glassformer.studio.toys import toy
trace = gf.record(toy("toy encoder").model, "I deposited [MASK] in the bank.")
"""
CELLS = (
    SETUP + 'trace.view("head", layer=1, head=2)',
    'trace.view("map")',
    'widget = trace.view("head", layer=0, head=3).widget()\nwidget',
    'trace.view("head", layer=1, head=0).widget()',
)
HEADS = {0: (1, 2), 2: (0, 3), 3: (1, 0)}  # layer and head of each frame; the second is a map
FRESH = "iframe[srcdoc]:not([data-old])"


@contextmanager
def quiet() -> Iterator[None]:
    """Jupyter's packages warn about each other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def notebook() -> Any:
    import nbformat

    about = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    cells = [nbformat.v4.new_code_cell(each) for each in CELLS]
    return nbformat.v4.new_notebook(cells=cells, metadata=about)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """JupyterLab with one notebook; its address."""
    import nbformat

    home = tmp_path_factory.mktemp("notebooks")
    with quiet():
        nbformat.write(notebook(), home / "look.ipynb")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}",
         "--ServerApp.token=", "--ServerApp.password=", f"--ServerApp.root_dir={home}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=home,
        env={**os.environ, "OMP_NUM_THREADS": "1", "JUPYTER_CONFIG_DIR": str(home / "config"),
             "JUPYTER_DATA_DIR": str(home / "data"), "IPYTHONDIR": str(home / "ipython")},
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/"
    try:
        _wait(process, f"{url}api")
        yield f"{url}lab/tree/look.ipynb"
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"JupyterLab does not answer, exit code {process.poll()}")


def frames(page: Page, count: int) -> list[Frame]:
    page.wait_for_function(f"() => document.querySelectorAll('{FRESH}').length === {count}")
    found = [each.content_frame() for each in page.query_selector_all(FRESH)]
    return [each for each in found if each is not None]


def restart_and_run_all(page: Page) -> None:
    """As a reader does it, by the menu. What was drawn before does not count any more."""
    page.evaluate("document.querySelectorAll('iframe').forEach((it) => { it.dataset.old = ''; })")
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("^Restart Kernel and Run All Cells")).click()
    page.get_by_role("dialog").locator(".jp-mod-accept").click()


def weights_of(server: Server, page: Page, layer: int, head: int) -> Any:
    page.goto(server.address("head", l=layer, h=head))
    run = drawn(page, MATRIX, str(layer), str(head))[0]
    return server.tensor(f"runs/{run}/head/encoder/{layer}/{head}?view=raw")


def check_pixels(found: list[Frame], studio: Page, server: Server) -> None:
    """Each picture is the one that the studio's own page has to be."""
    studio.goto(server.address())
    colours = table(studio)
    heads = server.tensor(f"runs/{drawn(studio, MAP)[0]}/map/encoder")
    for number, (layer, head) in HEADS.items():
        found[number].locator(f"{MATRIX}[data-drawn]").wait_for()
        weights = weights_of(server, studio, layer, head)
        seen = pixels(found[number], MATRIX)
        assert np.array_equal(seen, painted(colours, weights, seen.shape[1] // 9))
    found[1].locator(f"{MAP}[data-drawn]").wait_for()
    seen = pixels(found[1], MAP)
    scale = int(found[1].locator(MAP).get_attribute("data-scale") or 0)
    assert np.array_equal(seen[: 9 * scale, : 9 * scale], painted(colours, heads[0, 0], scale))
    assert all(each.evaluate("window.origin") == "null" for each in found)


def test_views_in_a_notebook(
    lab: str, toys: Server, open_page: Callable[..., Page], browser: Browser
) -> None:
    """Two frames and two widgets: true pixels, also after everything was run once more; what is
    clicked in a widget is known to Python."""
    studio = open_page(toys.url)
    page = browser.new_page(viewport={"width": 1500, "height": 4000})
    page.set_default_timeout(180_000)
    page.goto(lab)
    page.locator(".jp-Notebook .jp-InputArea-editor").first.click()
    for _ in CELLS:
        page.keyboard.press("Shift+Enter")
    check_pixels(frames(page, 4), studio, toys)
    restart_and_run_all(page)
    found = frames(page, 4)
    check_pixels(found, studio, toys)
    third = found[2]
    third.get_by_role("button", name="layer after").click()
    third.locator(f"{MATRIX}[data-drawn*='encoder,1,3']").wait_for()
    page.locator(".jp-Notebook .jp-InputArea-editor").last.click()  # the new cell below the others
    page.keyboard.type("print('at', widget.address); widget.address = '#/head?l=0&h=1'")
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_text(re.compile("at #/head.*l=1"))).to_be_visible()
    third.locator(f"{MATRIX}[data-drawn*='encoder,0,1']").wait_for()
    page.close()


def test_an_exported_notebook_keeps_them(
    toys: Server, open_page: Callable[..., Page], browser: Browser, tmp_path: Path
) -> None:
    """Executed, exported to HTML, opened from disk without a network."""
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    made = notebook()
    made.cells = made.cells[:2]
    with quiet():
        NotebookClient(made, timeout=120).execute()
        body, _ = HTMLExporter().from_notebook_node(made)
    (tmp_path / "look.html").write_text(body)
    studio = open_page(toys.url)
    weights = weights_of(toys, studio, 1, 2)
    context = browser.new_context(offline=True, viewport={"width": 1300, "height": 1800})
    page = context.new_page()
    page.goto((tmp_path / "look.html").as_uri(), wait_until="commit")
    first, second = frames(page, 2)
    first.locator(f"{MATRIX}[data-drawn]").wait_for()
    found = pixels(first, MATRIX)
    assert np.array_equal(found, painted(table(studio), weights, found.shape[1] // 9))
    second.locator(f"{MAP}[data-drawn]").wait_for()
    context.close()
