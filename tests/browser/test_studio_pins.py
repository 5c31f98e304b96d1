"""Pinned heads: from page to page, in the address, in an exported page."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.handling import taken
from browser.screens import Server, settle


def test_heads_are_pinned_and_carried(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("head", m="toy-translator", l=1, h=2, **{"in": "cross"}))
    settle(page)
    pins = page.get_by_role("group", name="Pinned heads")
    expect(pins).to_be_hidden()
    page.keyboard.press("v")
    expect(pins.get_by_role("button", name="cross L1·H2", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.keyboard.press(",")
    page.keyboard.press("v")
    expect(page).to_have_url(re.compile(r"pin=cross.1.2%2Ccross.1.1"))
    page.keyboard.press("S")  # a page without heads: a pin opens Head
    settle(page)
    page.reload()
    settle(page)
    expect(pins.get_by_role("button", name=re.compile("^cross"))).to_have_count(2)
    pins.get_by_role("button", name="cross L1·H2", exact=True).click()
    expect(page).to_have_url(re.compile("#/head.*h=2"))
    settle(page)
    page.keyboard.press("1")
    settle(page)
    page.keyboard.press("V")
    expect(page).to_have_url(re.compile("#/map.*h=1"))
    pins.get_by_role("button", name="unpin cross L1·H1").click()
    expect(pins.get_by_role("button", name=re.compile("^cross"))).to_have_count(1)
    page.keyboard.press("m")
    expect(pins).to_be_hidden()


@pytest.mark.slow
def test_pins_of_an_exported_page(
    toys: Server, open_page: Callable[..., Page], open_file: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page(toys.address("head", l=1, h=2, pin="encoder.0.1"))
    settle(page)
    alone = open_file(taken(page, "HTML", tmp_path).as_uri())
    alone.wait_for_function("() => document.querySelector('#live').textContent")
    alone.get_by_role("button", name="L0·H1", exact=True).click()
    expect(alone.locator(".stepper b").first).to_have_text("0")
    expect(alone.get_by_role("alert")).to_be_hidden()
