"""The page Space: its dots and cosines are the server's; layers, words, own texts, room."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle
from sampling import mostly_slow

MODELS = ("toy encoder", "toy decoder", "toy translator")
WIDE = "document.documentElement.scrollWidth > innerWidth"
DOTS = """() => [...document.querySelectorAll(".scatter .point")]
  .map((each) => ["cx", "cy"].map((name) => Number(each.getAttribute(name))))"""
IN_SIGHT = """() => {
  const room = document.querySelector(".chosen-texts").getBoundingClientRect();
  const box = document.querySelector(".texts [aria-pressed=true]").getBoundingClientRect();
  return box.left >= room.left && box.right <= room.right + 1;
}"""


def opened(server: Server, name: str, **more: object) -> tuple[Any, list[str]]:
    """What the server says about the default texts."""
    model = next(each for each in server.json("models")["models"] if each["name"] == name)
    row = server.json("spaces", {"model": model["id"], "texts": more.get("texts", model["texts"])})
    return row, model["texts"]


def similar(points: Any, values: Any) -> None:
    """The same figure, but for its scale and place; y goes up."""
    drawn, wanted = np.array(points), np.array(values) * [1, -1]
    drawn, wanted = drawn - drawn.mean(0), wanted - wanted.mean(0)
    scale = np.linalg.norm(drawn) / np.linalg.norm(wanted)
    assert np.abs(drawn - scale * wanted).max() < 0.5


@pytest.mark.parametrize("name", mostly_slow(reversed(MODELS)))
def test_dots_and_cosines_are_the_servers(
    toys: Server, open_page: Callable[..., Page], name: str
) -> None:
    page = open_page(toys.address("space", m=toys.model(name), dot=2, pt=1))
    settle(page)
    row, _ = opened(toys, name)
    one = toys.json(f"spaces/{row['space']}/words/2")
    drawn = page.evaluate(DOTS)
    kinds = [0 if i == 2 else 1 if i in one["same"] else 2 for i in range(len(row["words"]))]
    order = sorted(range(len(kinds)), key=lambda i: kinds[i])[::-1]  # the chosen one on top
    similar(drawn, [row["xy"][1][i] for i in order])
    expect(page.locator(".page-space .tools")).to_contain_text(
        f"{round(100 * row['shown'][1])} % of the variance"
    )
    rows = page.locator(".alike tbody tr")
    cosines = sorted((c for i, c in enumerate(one["cosines"][1]) if i != 2), reverse=True)
    shown = [
        float(each.replace("−", "-"))
        for each in rows.locator("td:nth-child(4)").all_text_contents()
    ]
    assert sorted(shown, reverse=True)[:5] == [round(c, 3) for c in cosines[:5]]
    seq2seq = "encoder's vectors" in (page.locator(".page-space").text_content() or "")
    assert seq2seq == (name == "toy translator")


def test_a_word_through_the_layers(toys: Server, open_page: Callable[..., Page]) -> None:
    """The slider, the keys and the address; a path has a stop for each layer."""
    page = open_page(toys.address("space", m="toy-encoder"))
    settle(page)
    row, _ = opened(toys, "toy encoder")
    points = [each["name"] for each in row["points"]]
    expect(page.get_by_role("slider", name="Layer")).to_have_value(str(len(points) - 1))
    page.keyboard.press("[")
    expect(page.locator(".page-space output")).to_have_text(points[-2])
    expect(page).to_have_url(re.compile(f"pt={len(points) - 2}"))
    page.keyboard.press("g")
    expect(page.get_by_role("button", name="one word")).to_have_attribute("aria-pressed", "true")
    settle(page)
    assert page.locator(".way.chosen").count() == 1
    assert page.locator(".stop.chosen").count() == len(points)
    page.keyboard.press("g")
    expect(page.locator(".pairs tbody tr")).to_have_count(3)
    expect(page.get_by_role("slider", name="Layer")).to_be_hidden()
    page.get_by_role("group", name="Text 2").get_by_role("button").first.click()
    expect(page).to_have_url(re.compile(r"dot=\d+"))


@pytest.mark.slow
def test_own_texts(toys: Server, open_page: Callable[..., Page]) -> None:
    """One a line; they stand in the address; too long a one is refused in one line."""
    page = open_page(toys.address("space", m="toy-decoder"))
    settle(page)
    box = page.get_by_label("Own texts, one a line")
    box.fill("the cat\n\nman ordered")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".texts li")).to_have_count(2)
    expect(page).to_have_url(re.compile("tx=the.cat"))
    page.reload()
    settle(page)
    expect(page.locator(".texts li")).to_have_count(2)
    page.get_by_label("Own texts, one a line").fill("the " * 99)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("alert")).to_contain_text("shorten it")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".texts li")).to_have_count(3)
    expect(page.get_by_role("alert")).to_be_hidden()


def test_no_sentence_vectors_says_so(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("space", m="toy-translator", plane="sentences"))
    settle(page)
    expect(page.get_by_role("region", name="Points")).to_contain_text("no sentence vectors")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_click_on_a_dot_chooses_it(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("space", m="toy-encoder", dot=0))
    settle(page)
    dot = page.locator(".scatter .point.other").first
    box = dot.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    told = page.locator(".tip").text_content() or ""
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile(r"dot=[1-9]"))
    settle(page)
    word = re.match("“(.+?)”", told)
    assert word and word[0] in (page.locator(".likeness h2").text_content() or "")


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 1280, 1920])
def test_room(strangers: Server, open_page: Callable[..., Page], width: int) -> None:
    """No page scrolls sideways; the chosen word is in its card."""
    texts = "\n".join([" ".join(["xyz"] * 40), "the cat sat"])
    for plane in ("words", "sentences"):
        state = {"m": strangers.model("bert"), "tx": texts, "plane": plane, "dot": 38}
        page = open_page(strangers.address("space", **state), width=width, height=844)
        settle(page)
        assert not page.evaluate(WIDE)
        assert page.evaluate(IN_SIGHT)
