"""A page in one file: opened from disk or in a frame it is the studio's, as far as it goes."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser.handling import MAP, MATRIX, PAGES, head, taken
from browser.screens import Server, drawn, painted, pixels, settle, table
from glassformer.studio.standalone import script

COLOURS = """() => [...document.querySelectorAll("main canvas")]
  .filter((canvas) => canvas.checkVisibility() && canvas.shows)
  .flatMap((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return canvas.shows.map(({ name, bytes, columns, left, top, scale, tall = scale }) => {
      const at = (i) => [left + (i % columns.length + 0.5) * scale,
        top + (Math.floor(i / columns.length) + 0.5) * tall].map(Math.floor);
      const colour = ([x, y]) => data.slice(...[0, 3].map((n) => 4 * (y * canvas.width + x) + n));
      return [name, Array.from(bytes, (_, i) => colour(at(i)).join(" "))];
    });
  })"""
EVERYTHING = """async () => {
  const later = () => new Promise((done) => { setTimeout(done, 5); });
  const tell = (node, event) => node.dispatchEvent(new Event(event, { bubbles: true }));
  const acts = {
    BUTTON: (node) => node.click(),
    SELECT: (node) => { node.selectedIndex = node.length - 1; tell(node, "change"); },
    INPUT: (node) => {
      if (node.type !== "range") return node.click();
      node.value = node.max;
      return tell(node, "input");
    },
  };
  const found = () => [...document.querySelectorAll("main :is(button, select, input):enabled")]
    .filter((node) => node.checkVisibility());
  const line = document.querySelector("#trouble");
  let count = 0;
  for (let i = 0; i < 2 * found().length; i++, count++) {
    const node = found()[i % found().length];
    acts[node.tagName](node);
    await later();
    if (!line.hidden) return `${node.ariaLabel ?? node.textContent}: ${line.textContent}`;
  }
  return count;
}"""


def test_a_page_without_a_studio(
    toys: Server, open_page: Callable[..., Page], open_file: Callable[..., Page], tmp_path: Path
) -> None:
    """Opened from disk it shows the same pixels, and the other heads too; it asks for nothing."""
    page = open_page(toys.address("head", l=1, h=2))
    head(toys, page)
    page.wait_for_function("() => document.querySelector('#live').textContent")
    path = taken(page, "HTML", tmp_path)
    assert path.stat().st_size < 400_000
    (tmp_path / "again").mkdir()
    page.keyboard.press("E")  # the close of the time before may come when it is open again
    page.evaluate("document.querySelector('dialog[open]').dispatchEvent(new Event('close'))")
    again = taken(
        page, "HTML", tmp_path / "again"
    )  # what was asked for the first has pushed out nothing
    assert again.read_text() == path.read_text()
    alone = open_file(path.as_uri())
    assert drawn(alone, MATRIX) == drawn(page, MATRIX)
    assert_same(toys, alone, page)
    expect(alone.locator("#ask")).to_be_hidden()
    alone.keyboard.press("[")
    drawn(alone, MATRIX, "0")
    weights = toys.tensor(f"runs/{drawn(page, MATRIX)[0]}/head/encoder/0/2?view=raw")
    found = pixels(alone, MATRIX)
    scale = found.shape[1] // weights.shape[1]
    assert np.array_equal(found, painted(table(page), weights, scale))
    expect(alone.get_by_role("alert")).to_be_hidden()
    alone.goto(alone.url.replace("#/head?", "#/head?x=another+text&"))
    expect(alone.get_by_role("alert")).to_contain_text("holds only what was exported")
    drawn(alone, MATRIX, "0")
    assert "another" not in alone.url
    assert np.array_equal(pixels(alone, MATRIX), found)


def assert_same(server: Server, one: Page, other: Page) -> None:
    """The same cells in the same colours, whatever the room on the screen."""
    weights = head(server, other)
    for each in (one, other):
        found = pixels(each, MATRIX)
        scale = found.shape[1] // weights.shape[1]
        assert np.array_equal(found, painted(table(other), weights, scale))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_any_page_without_a_studio(
    toys: Server,
    open_page: Callable[..., Page],
    open_file: Callable[..., Page],
    tmp_path: Path,
    name: str,
) -> None:
    """Its pictures are the studio's; whatever can be clicked there has its answer."""
    state = {"m": toys.model("toy translator"), "off": "cross.0.1"}
    page = open_page(toys.address(name, **state), theme="dark")
    page.wait_for_function("() => document.querySelector('#live').textContent")
    alone = open_file(taken(page, "HTML", tmp_path).as_uri(), theme="dark")
    alone.wait_for_function("() => document.querySelector('#live').textContent")
    expect(alone.get_by_role("alert")).to_be_hidden()
    assert alone.locator("#live").text_content() == page.locator("#live").text_content()
    pictures = page.evaluate(COLOURS)
    assert pictures or name in ("space", "neurons", "pooling", "toy", "causes")
    assert alone.evaluate(COLOURS) == pictures
    assert int(alone.evaluate(EVERYTHING)) >= (0 if name in ("translate", "causes") else 5)


@pytest.mark.slow
def test_a_run_without_a_studio(
    strangers: Server,
    open_page: Callable[..., Page],
    open_file: Callable[..., Page],
    tmp_path: Path,
) -> None:
    """One checkpoint beside the model; the others take the server."""
    page = open_page(strangers.address("training", m=strangers.model("run"), cp=20))
    settle(page)
    alone = open_file(taken(page, "HTML", tmp_path).as_uri())
    alone.wait_for_function("() => document.querySelector('#live').textContent")
    assert alone.locator("#live").text_content() == page.locator("#live").text_content()
    expect(alone.get_by_role("slider", name="Checkpoint")).to_be_disabled()
    assert int(alone.evaluate(EVERYTHING)) >= 4


@pytest.mark.slow
def test_what_takes_the_server_is_switched_off(
    toys: Server, open_page: Callable[..., Page], open_file: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page(toys.address("generate", m="toy-decoder", how="sample"))
    settle(page)
    alone = open_file(taken(page, "HTML", tmp_path).as_uri())
    alone.wait_for_function("() => document.querySelector('#live').textContent")
    for role, name in (
        ("combobox", "Model"), ("button", "greedy"), ("button", "beam search"),
        ("slider", "temperature"), ("button", "Resample"), ("combobox", "at most"),
        ("button", "Choose “chicken”"),
    ):  # fmt: skip
        expect(page.get_by_role(role, name=name)).to_be_enabled()  # type: ignore[arg-type]
        expect(alone.get_by_role(role, name=name)).to_be_disabled()  # type: ignore[arg-type]
    alone.get_by_role("button", name="Next").click()
    expect(alone.locator(".choosing h2")).to_contain_text("“chicken”")


def test_a_frame_in_another_page(
    toys: Server, open_page: Callable[..., Page], open_file: Callable[..., Page], tmp_path: Path
) -> None:
    """As a notebook shows it, two at once, each in its sandbox; the pixels are the studio's."""
    trace = toys.trace("toy-encoder", "I deposited [MASK] in the bank.")
    views = [trace.view("head", layer=1, head=2, token="[MASK]"), trace.view("map")]
    whole = "<!doctype html><body>" + "".join(each._repr_html_() for each in views)
    (tmp_path / "notebook.html").write_text(whole)
    page = open_page(toys.address("head", l=1, h=2))
    weights = head(toys, page)
    alone = open_file((tmp_path / "notebook.html").as_uri(), height=1500)
    first, second = (alone.frames[i] for i in (1, 2))
    for frame, selector in ((first, MATRIX), (second, MAP)):
        frame.locator(f"{selector}[data-drawn]").wait_for()
    found = pixels(first, MATRIX)
    scale = found.shape[1] // weights.shape[1]
    assert np.array_equal(found, painted(table(page), weights, scale))
    first.get_by_role("link", name="Map").click()
    first.locator(f"{MAP}[data-drawn]").wait_for()
    assert np.array_equal(pixels(first, MAP), pixels(second, MAP))
    assert first.evaluate("window.origin") == "null"
    assert first.locator("#trouble").is_hidden()


LEAVE = """() => {
  const all = [...document.querySelectorAll("#export .buttons button")];
  all.find(({ textContent }) => textContent === "HTML").click();
  location.hash = "#/map?m=toy-decoder";
  return all.every(({ disabled }) => disabled);
}"""


@pytest.mark.slow
def test_what_was_left_out(
    toys: Server, open_page: Callable[..., Page], open_file: Callable[..., Page], tmp_path: Path
) -> None:
    """It is told, and switched off in the file; who leaves meanwhile takes what was there."""
    page = open_page("about:blank")
    assert "MOST = 1500;" in script()
    fewer = script().replace("MOST = 1500;", "MOST = 11;")
    page.route(
        "**/studio.js", lambda route: route.fulfill(body=fewer, content_type="text/javascript")
    )
    page.goto(toys.address("head", m="toy-encoder", l=0, h=1, q=1))
    settle(page)
    page.keyboard.press("E")
    with page.expect_download() as started:
        assert page.evaluate(LEAVE)
    started.value.save_as(tmp_path / "part.html")
    told = page.get_by_role("dialog", name="Export").get_by_role("status")
    expect(told).to_have_text(re.compile(r"without 46 of 57 answers"))
    drawn(page, MAP)
    alone = open_file((tmp_path / "part.html").as_uri())
    drawn(alone, MATRIX, "0", "1")
    for name, able in (("head before", True), ("head after", False), ("layer after", False)):
        button = alone.get_by_role("button", name=name)
        (expect(button).to_be_enabled if able else expect(button).to_be_disabled)()
    assert int(alone.evaluate(EVERYTHING)) >= 4
    alone.get_by_role("link", name="glassformer").click()
    alone.keyboard.press("?")
    shortcuts = alone.get_by_role("dialog").get_by_role("table")
    expect(shortcuts).to_contain_text("larger cells")
    where = shortcuts.locator("td:last-child").all_text_contents()
    assert set(where) == {"everywhere", "Head"}
    expect(alone.get_by_role("alert")).to_be_hidden()
    drawn(alone, MATRIX)
