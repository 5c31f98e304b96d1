"""Pooling and Toy, all heads in one picture, answers and the next sentence: by mouse and keyboard,
with the server's numbers."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle
from glassformer.studio.pooling_toys import VARIANTS
from sampling import mostly_slow

WIDE = "document.documentElement.scrollWidth > innerWidth"
SHOWN = """async (values) => {
  const { number } = await import("./dom.js");
  return values.map(number);
}"""
HUES = """() => {  // of the lines: the quarters of the circle that have the most pixels, first
  const canvas = document.querySelector(".arcs-pane canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const counts = [0, 0, 0, 0];
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = [data[i], data[i + 1], data[i + 2]];
    const [most, least] = [Math.max(r, g, b), Math.min(r, g, b)];
    if (data[i + 3] < 40 || most - least < 60) continue;
    const hue = most === r ? ((g - b) / (most - least) + 6) % 6
      : most === g ? (b - r) / (most - least) + 2 : (r - g) / (most - least) + 4;
    counts[Math.round(hue * 60 / 90) % 4] += 1;
  }
  return [0, 1, 2, 3].filter((i) => counts[i]).sort((a, b) => counts[b] - counts[a]);
}"""


def cells(page: Page, title: str) -> list[str]:
    """The numbers of a table, row by row."""
    rows = page.get_by_role("region", name=title, exact=True).locator("tbody td[data-value]")
    return [text for text in rows.all_text_contents() if text != "·"]


def numbers(sheet: dict[str, list[list[object]]]) -> list[object]:
    return [each for row in sheet["rows"] for each in row[1:] if isinstance(each, float | int)]


def test_a_pooling_model_opens_on_its_page(poolers: Server, open_page: Callable[..., Page]) -> None:
    """Word and sentence weights are the server's; a word is chosen by mouse and by key."""
    page = open_page(poolers.url)
    expect(page).to_have_url(re.compile("#/pooling"))
    settle(page)
    text = page.locator("#text").input_value()
    expect(page.locator("#second")).to_have_count(0)
    (document,) = poolers.json("pooling", {"model": "reviews", "text": text})["variants"]
    words = [word for each in document["sentences"] for word in each["words"]]
    buttons = page.locator(".pooled .strip button")
    assert buttons.all_text_contents() == [word["text"] for word in words]
    tints = buttons.evaluate_all(
        "(all) => all.map((each) => Number(each.style.getPropertyValue('--tint')))"
    )
    assert tints == pytest.approx([word["weights"][0] for word in words], abs=6e-4)
    shares = page.locator(".pooled .sentence > .quiet").all_text_contents()
    assert shares == [f"{each['weight']:.2f}" for each in document["sentences"]]
    buttons.nth(3).click()
    expect(page).to_have_url(re.compile("wd=3"))
    page.keyboard.press("j")
    expect(buttons.nth(4)).to_have_attribute("aria-pressed", "true")
    settle(page)
    asked = {"model": "reviews", "text": text, "word": 4}
    (document,) = poolers.json("pooling", asked)["variants"]
    for sheet in document["walk"]:
        assert cells(page, sheet["title"]) == page.evaluate(SHOWN, numbers(sheet))


@pytest.mark.slow
def test_vectors_are_swapped(poolers: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(poolers.address("pooling", m="reviews"))
    settle(page)
    expect(page.locator(".pooled")).to_have_count(1)
    page.get_by_label("Word vectors").select_option("glove.txt")
    expect(page.get_by_role("region", name="with the vectors of glove.txt")).to_be_visible()
    expect(page).to_have_url(re.compile("vec=glove.txt"))
    page.keyboard.press("n")
    expect(page.locator(".pooled[aria-current]")).to_contain_text("with the vectors")


@pytest.mark.slow
def test_pages_of_heads_send_a_pooling_model_to_its_own(
    poolers: Server, open_page: Callable[..., Page]
) -> None:
    """And no key that is about heads breaks it."""
    page = open_page(poolers.address("numbers", m="reviews"))
    expect(page).to_have_url(re.compile("#/pooling"))
    settle(page)
    for key in ("x", "[", "]", ",", ".", "u", "4", "Home"):
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile("#/pooling"))
    page.keyboard.press("Y")
    expect(page).to_have_url(re.compile("#/toy"))
    settle(page)
    page.keyboard.press("m")
    page.keyboard.press("m")
    expect(page.get_by_label("Model", exact=True)).to_have_value("answers")
    page.keyboard.press("1")
    settle(page)
    expect(page).to_have_url(re.compile("#/map"))


@pytest.mark.slow
def test_variants_stand_side_by_side(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("pooling", pool="variants"))
    settle(page)
    names = page.locator(".pooled h2").all_text_contents()
    assert [any(name.startswith(each.name) for name in names) for each in VARIANTS] == [True] * 4
    boxes = [each.bounding_box() for each in page.locator(".pooled").all()[:2]]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"]
    box = page.get_by_role("textbox", name="Document")
    box.fill("The story was dull.")
    box.press("Enter")
    expect(page.locator(".pooled .badge").last).to_contain_text("negative")  # two heads
    expect(page).to_have_url(re.compile("rv=The"))


def test_a_toy_is_chosen_and_trained_again(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("toy"))
    settle(page)
    for path, act in (
        ("first/4/0", None), ("second/4/0", "g"), ("second/4/1", "j"), ("second/5/1", "r"),
    ):  # fmt: skip
        answer = toys.json(f"toy/{path}")
        if act:
            with page.expect_response(lambda response, path=path: path in response.url):
                page.keyboard.press(act)
        expect(page.locator("#live")).to_have_text(answer["conclusion"])
        settle(page)
        for sheet in answer["sheets"]:
            assert cells(page, sheet["title"]) == page.evaluate(SHOWN, numbers(sheet))


def test_the_slides_table_of_positions(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("positions", show="shuffle"))
    page.locator(".page-shuffle .words").first.wait_for()
    page.keyboard.press("g")
    sheet = toys.json("slides/positions")["sheets"][0]
    region = page.get_by_role("region", name=sheet["title"])
    expect(region).to_contain_text("−0.4849")
    assert cells(page, sheet["title"]) == page.evaluate(SHOWN, numbers(sheet))


def test_all_heads_in_one_picture(toys: Server, open_page: Callable[..., Page]) -> None:
    """Each in its colour; shown and hidden by mouse and by key."""
    page = open_page(toys.address("head", m="toy-encoder", w="all", t=0))
    settle(page)
    chips = page.locator(".chips button")
    shown = page.locator(".chips [aria-pressed=true]")
    expect(chips).to_have_count(4)
    assert len(page.evaluate(HUES)) > 1
    chips.nth(1).click()
    expect(page).to_have_url(re.compile("hh=1"))
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("H")
    expect(shown).to_have_count(4)
    for head in range(4):
        page.keyboard.press("H")
        expect(shown).to_have_text(str(head))
        settle(page)
        assert page.evaluate(HUES)[0] == head
        page.keyboard.press("H")
        expect(shown).to_have_count(4)
        page.keyboard.press(".")
    page.keyboard.press("h")
    expect(shown).to_have_count(3)
    page.keyboard.press("w")
    expect(page.locator(".chips")).to_be_hidden()


def test_an_answer_is_drawn_on_the_text(poolers: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(poolers.address("map", m="answers"))
    settle(page)
    asked = {name: page.locator(f"#{name}").input_value() for name in ("text", "second")}
    row = poolers.json("runs", {"model": "answers", **asked})
    spans, tokens = row["predictions"]["spans"], row["tokens"]["queries"]["encoder"]
    marked = page.locator(".predictions .strip .asked").all_text_contents()
    inside = tokens[spans[0]["start"] : spans[0]["end"] + 1]
    assert marked == [each["text"] for each in inside]
    told = page.locator(".predictions tbody td[data-value]:nth-child(4)").all_text_contents()
    assert told == [f"{each['p']:.2f}" if each["p"] >= 0.005 else "<0.01" for each in spans]


@pytest.mark.slow
def test_the_next_sentence(poolers: Server, open_page: Callable[..., Page]) -> None:
    """Beside the words; with a head off, before and after."""
    state = {"m": "bert", "x": "the cat sat", "y": "it was good"}
    page = open_page(poolers.address("map", **state))
    settle(page)
    body = {"model": "bert", "text": state["x"], "second": state["y"]}
    p = poolers.json("runs", body)["predictions"]["follows"]
    rows = page.get_by_role("table", name="Does the second text follow the first?")
    assert rows.locator("tbody td[data-value]").all_text_contents() == [f"{p:.2f}", f"{1 - p:.2f}"]
    page.keyboard.press("x")
    expect(rows.locator("thead")).to_contain_text("before")


@pytest.mark.parametrize("width", mostly_slow([320, 390, 1280]))
@pytest.mark.parametrize("name", mostly_slow(["toy", "pooling"]))
def test_there_is_room(toys: Server, open_page: Callable[..., Page], name: str, width: int) -> None:
    state = {"pool": "variants"} if name == "pooling" else {"toy": "second"}
    page = open_page(toys.address(name, **state), width=width, height=700)
    settle(page)
    assert not page.evaluate(WIDE)
    page.keyboard.press("l")
    assert not page.evaluate(WIDE)
