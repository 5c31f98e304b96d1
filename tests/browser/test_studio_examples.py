"""Examples by phenomenon, and `find=`: the studio chooses the head that shows it."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle


def test_it_opens_on_a_head_that_shows_something(
    shipped: Server, open_page: Callable[..., Page]
) -> None:
    """The first example of the first model, with its head; the address names it."""
    page = open_page(shipped.url)
    settle(page)
    model = shipped.json("models")["models"][0]
    sample = model["samples"][0]
    run = shipped.json("runs", {"model": model["id"], "text": sample["text"]})["run"]
    found = shipped.json(f"runs/{run}/find?what={sample['find']}")
    state = page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.split('?')[1]))")
    assert "find" not in state and state["in"] == found["stack"]
    assert (int(state.get("l", 0)), int(state.get("h", 0))) == (found["layer"], found["head"])
    groups = page.locator(".samples optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert groups == list(dict.fromkeys(each["group"] for each in model["samples"]))
    assert {"induction", "agreement", "coreference", "two meanings"} <= set(groups)


def test_an_example_brings_its_head(shipped: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(shipped.address("head", m="gf-encoder", x="I ate the apple."))
    settle(page)
    text = "The pizza came out of the oven and it tasted good!"
    page.get_by_label("Example sentences").select_option(label=text)
    expect(page.locator(".page-head .row h2")).to_contain_text("it")
    settle(page)
    best = page.locator(".page-head .row tbody tr").first
    expect(best).to_contain_text("pizza")


def test_an_address_seeks(toys: Server, open_page: Callable[..., Page]) -> None:
    """What it seeks is measured once; the back button leads to the page before, not to it."""
    page = open_page(toys.address("map", m="toy-decoder", x="the cat", l=1))
    settle(page)
    page.goto(toys.address("head", m="toy-decoder", x="man ordered the", find="the>man"))
    settle(page)
    run = toys.json("runs", {"model": "toy-decoder", "text": "man ordered the"})["run"]
    found = toys.json(f"runs/{run}/find?what=the%3Eman")
    expect(page).not_to_have_url(re.compile("find="))
    expect(page.get_by_role("group", name="layer", exact=True)).to_contain_text(
        f"layer {found['layer']}"
    )
    expect(page.get_by_role("group", name="head", exact=True)).to_contain_text(
        f"head {found['head']}"
    )
    page.go_back()
    expect(page).to_have_url(re.compile("#/map.*x=the"))


def test_what_cannot_be_found_is_said(toys: Server, open_page: Callable[..., Page]) -> None:
    evil = "<img src=x onerror=alert(1)>"
    for find in ("the>pizza", evil, "beauty"):
        page = open_page(toys.address("head", m="toy-decoder", x="man ordered the", find=find))
        settle(page)
        expect(page.get_by_role("alert")).to_contain_text(f"'{find}'")
        expect(page).not_to_have_url(re.compile("find="))


@pytest.mark.slow
def test_a_choice_in_the_address_stays(shipped: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(shipped.address("head", m="gf-decoder", l=1, h=2))
    settle(page)
    expect(page.get_by_role("group", name="layer", exact=True)).to_contain_text("layer 1")
    expect(page.get_by_role("group", name="head", exact=True)).to_contain_text("head 2")
