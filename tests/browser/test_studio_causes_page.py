"""The page Causes: its numbers and its graph are the server's; its fields, errors and room."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle
from sampling import mostly_slow

WIDE = "document.documentElement.scrollWidth > innerWidth"
MASK, OTHER = "I deposited [MASK] in the bank.", "I ate [MASK] in the bank."
LINES = "I ate the apple.\nI sat by the river bank.\nI deposited the money."
FIELDS = {
    "input": {},
    "circuit": {"from": OTHER, "ed": 12},
    "steer": {"to": "I ate the apple.", "aw": "I sat by the river bank."},
    "probe": {"lb": "I x\nate y\nthe x\nbank y\n" * 4},
    "lens": {"tx": LINES},
}
EXACT = """async (values) => {
  const { number } = await import("./dom.js");
  return values.map((each) => (typeof each === "number" ? number(each) : each));
}"""


def opened(server: Server, open_page: Callable[..., Page], kind: str, **more: object) -> Page:
    state = {"m": server.model("toy encoder"), "x": MASK, "q": 3, "why": kind, **FIELDS[kind]}
    return open_page(server.address("causes", **state), **more)


def answer(page: Page) -> dict:
    """What the server said last."""
    with page.expect_response("**/api/causes") as told:
        page.reload()
    return json.loads(told.value.body())


@pytest.mark.parametrize("kind", mostly_slow(["circuit", "input", "steer", "probe", "lens"]))
def test_what_is_shown_is_the_servers(
    toys: Server, open_page: Callable[..., Page], kind: str
) -> None:
    page = opened(toys, open_page, kind)
    settle(page)
    said = answer(page)
    settle(page)
    cells = page.locator(".page-causes .sheet tbody tr > *").all_text_contents()
    rows = [cell for sheet in said["sheets"] for row in sheet["rows"] for cell in row]
    names = [row[0] for sheet in said["sheets"] for row in sheet["rows"]]
    shown = page.evaluate(EXACT, rows)
    assert cells == shown and set(names) <= set(cells)
    assert page.locator(".drawn polyline").count() == len(said["curves"])
    assert page.locator(".drawn path.edge").count() == len(said["edges"])
    texts = page.locator(".drawn .edge ~ text").all_text_contents()
    assert texts == [node["name"] for node in said["nodes"]]
    assert bool(said["edges"]) == (kind == "circuit")


@pytest.mark.slow
def test_a_method_is_chosen_and_a_sentence_written(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    page = opened(toys, open_page, "input")
    settle(page)
    page.get_by_label("Scores by").select_option("occlusion")
    expect(page).to_have_url(re.compile("am=occlusion"))
    page.get_by_role("button", name="circuit").click()
    expect(page.locator(".page-causes .none")).to_contain_text("another sentence")
    box = page.get_by_label("another sentence")
    box.fill(OTHER)
    box.press("Tab")
    expect(page.locator(".drawn path.edge").first).to_be_attached()
    page.get_by_role("button", name="edges after").click()
    expect(page).to_have_url(re.compile("ed=21"))
    box.fill("one word")
    box.press("Tab")
    expect(page.locator(".page-causes .none")).to_contain_text("tokens")
    expect(page.locator("#trouble")).to_be_hidden()


@pytest.mark.parametrize(("name", "path"), mostly_slow([("lab", "sweep"), ("causes", "causes")]))
def test_an_error_of_the_server_is_shown(
    toys: Server, open_page: Callable[..., Page], name: str, path: str
) -> None:
    """One line above the page, also after a click."""
    state = {"m": toys.model("toy encoder"), "x": MASK, "from": OTHER, "why": "circuit"}
    page = open_page(toys.address("lab", **state))
    settle(page)
    page.route(f"**/api/**{path}**", lambda route: route.fulfill(
        status=500, body='{"error": "out of order"}', content_type="application/json"))  # fmt: skip
    if name == "lab":
        page.get_by_role("button", name="Try every patch").click()
    else:
        page.keyboard.press("C")
    expect(page.locator("#trouble")).to_have_text("out of order")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FIELDS)
def test_a_small_screen(toys: Server, open_page: Callable[..., Page], kind: str) -> None:
    page = opened(toys, open_page, kind, width=390, height=844)
    settle(page)
    assert not page.evaluate(WIDE)
