"""The bar: in a narrow one the pages are one line that scrolls."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle
from sampling import mostly_slow

LINES = """() => new Set([...document.querySelectorAll("#bar nav a")]
  .map((each) => Math.round(each.getBoundingClientRect().top))).size"""
WIDE = "document.documentElement.scrollWidth > innerWidth"


@pytest.mark.parametrize(("width", "drawer"), mostly_slow([(1280, True), (390, False)]))
def test_one_line_with_the_current_page_in_sight(
    toys: Server, open_page: Callable[..., Page], width: int, drawer: bool
) -> None:
    page = open_page(toys.address("training", m="toy-encoder"), width=width, height=844)
    settle(page)
    if drawer:
        page.keyboard.press("L")
        expect(page.locator("#drawer")).to_be_visible()
        settle(page)
    assert page.evaluate(LINES) == 1 and not page.evaluate(WIDE)
    current = page.locator("#bar nav [aria-current=page]")
    expect(current).to_be_in_viewport(ratio=0.9)
    current.focus()
    page.keyboard.press("Shift+Tab")  # the line follows the focus
    expect(page.locator("#bar nav a:focus")).to_be_in_viewport(ratio=0.9)
