"""Lessons and glossary: the drawer, the checks, the progress, terms on the pages."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle
from glassformer.studio.standalone import DONE
from sampling import mostly_slow

EVIL = "<img src=x onerror=alert(1)>"
WIDE = "document.documentElement.scrollWidth > innerWidth"
KEPT = "JSON.parse(localStorage.getItem('glassformer-lessons'))"
TERM = """(name) => {
  for (const range of CSS.highlights.get("term")) {
    if (range.toString().toLowerCase() !== name) continue;
    const { x, y, width, height } = range.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  }
  return null;
}"""
Act = Callable[[Page], object]


def press(key: str) -> Act:
    return lambda page: page.keyboard.press(key)


def click(role: str, name: str) -> Act:
    return lambda page: page.locator("main").get_by_role(role, name=name, exact=True).click()  # type: ignore[arg-type]


def slide(label: str, value: str) -> Act:
    return lambda page: page.get_by_role("slider", name=label).fill(value)


def swap(word: str) -> Act:
    def act(page: Page) -> None:
        page.get_by_label("Another word").fill(word)
        page.get_by_role("button", name="Swap").click()

    return act


def token(place: int) -> Act:
    """By the keys j and k: the same on every page that has tokens."""

    def act(page: Page) -> None:
        for key in ["k"] * 14 + ["j"] * place:
            page.keyboard.press(key)

    return act


def candidate(page: Page) -> None:
    page.keyboard.press("j")
    settle(page)
    page.keyboard.press("t")


# What is wrong and what is right at each step.
WALK: dict[str, list[tuple[Act, Act]]] = {
    "attention": [
        (press("]"), lambda page: page.locator("[data-at='encoder.token.-1.2']").click()),
        (press("]"), token(6)),
        (press("]"), press("x")),
        (swap("boxes"), swap("key")),
    ],
    "positions": [
        (slide("Position", "50"), slide("Position", "98")),
        (slide("Position", "50"), click("button", "this model's positions")),
        (click("button", "Shuffle again"), press("o")),
    ],
    "context": [
        (press("n"), lambda page: page.get_by_role(
            "group", name="The word of the other sentence").get_by_role(
            "button", name="money").click()),
        (press("]"), token(2)),
        (press("]"), swap("fish")),
    ],
    "next-word": [
        (press("]"), token(0)),
        (press("n"), click("button", "sample")),
        (press("n"), candidate),
        (press("["), lambda page: page.get_by_role("navigation").get_by_role(
            "link", name="Lab").click()),
        (press("]"), press("x")),
    ],
    "translation": [
        (press("]"), press("j")),
        (press("]"), click("button", "encoder")),
        (press("]"), swap("He")),
    ],
    "training": [
        (press("n"), slide("Checkpoint", "3")),
        (press("b"), slide("Checkpoint", "0")),
        (press("n"), click("button", "sample")),
    ],
}  # fmt: skip


def begin(page: Page, lesson: str, shipped: Server) -> int:
    """Opens the list by its key, then a lesson; the number of its steps."""
    settle(page)
    page.keyboard.press("L")
    one = next(each for each in shipped.json("lessons")["lessons"] if each["id"] == lesson)
    page.get_by_role("complementary", name="Lessons").get_by_role(
        "button", name=one["title"]
    ).click()
    expect(page.locator("#drawer h2")).to_have_text(one["title"])
    return len(one["steps"])


def arrived(page: Page) -> None:
    expect(page.locator(".verdict")).to_have_text("")
    expect(page).not_to_have_url(re.compile("find="))
    page.wait_for_function(DONE)
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("lesson", mostly_slow(WALK))
def test_a_lesson_from_beginning_to_end(
    shipped: Server, open_page: Callable[..., Page], lesson: str
) -> None:
    """Nothing is green at first; what is wrong is said; what is right turns green and is kept."""
    page = open_page(shipped.url)
    steps = begin(page, lesson, shipped)
    verdict = page.locator(".verdict")
    assert len(WALK[lesson]) == steps
    for n, (wrong, right) in enumerate(WALK[lesson]):
        arrived(page)
        address = page.url
        wrong(page)
        if page.url != address:  # at the end of a list its key does nothing
            expect(verdict).to_contain_text("Not yet: ")
            expect(verdict).to_have_class(re.compile("failed"))
            page.get_by_role("button", name="Open this step again").click()
            arrived(page)
        right(page)
        expect(verdict).to_contain_text("Right.")
        expect(verdict).to_have_class(re.compile("passed"))
        expect(page.get_by_role("button", name=f"Step {n + 1}, done")).to_be_visible()
        if n < steps - 1:
            page.get_by_role("button", name="Next step").click()
    expect(verdict).to_have_text("Right. This lesson is done.")
    assert page.evaluate(KEPT) == {lesson: list(range(steps))}
    page.goto(shipped.url)
    settle(page)
    page.keyboard.press("L")
    expect(page.locator("#drawer")).to_contain_text(f"{steps} of {steps} steps done")


@pytest.mark.slow
def test_another_head_and_another_text_are_wrong(
    shipped: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(shipped.url)
    begin(page, "attention", shipped)
    page.get_by_role("button", name="Step 3").click()
    arrived(page)
    page.keyboard.press("[")
    expect(page.locator(".verdict")).to_contain_text("is still on")
    page.keyboard.press("x")
    expect(page.locator(".verdict")).to_contain_text("that is another head: switch off L")
    page.locator("#text").fill("I ate the apple.")
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("this is another text")
    page.get_by_role("button", name="All lessons").click()
    expect(page.locator("#drawer")).to_contain_text("0 of 4 steps done")


def test_a_studio_without_the_models(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    settle(page)
    page.get_by_role("button", name="Lessons").click()
    drawer = page.get_by_role("complementary", name="Lessons")
    expect(drawer.locator("li button:disabled")).to_have_count(6)
    expect(drawer).to_contain_text("It needs gf-encoder")


def test_the_focus(toys: Server, open_page: Callable[..., Page]) -> None:
    """Into the drawer and back; Escape closes the drawer and leaves the page where it is."""
    page = open_page(toys.address("head", m="toy-decoder"))
    settle(page)
    page.get_by_role("button", name="Glossary").focus()
    for key in ("L", "G"):
        page.keyboard.press(key)
        expect(page.locator("#drawer h2")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Find a term")).to_be_focused()
    page.keyboard.type("soft")
    expect(page.locator("#drawer dt")).to_contain_text(["softmax"])
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    expect(page.get_by_role("button", name="Glossary")).to_be_focused()
    assert "#/head" in page.url
    page.keyboard.press("G")
    expect(page.get_by_role("button", name="Glossary")).to_have_attribute("aria-expanded", "true")
    page.locator("#drawer h2").focus()
    page.keyboard.press("G")
    expect(page.locator("#drawer")).to_be_hidden()


def test_a_term_on_the_page_opens_its_entry(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("model", m="toy-decoder"))
    settle(page)
    page.wait_for_function("CSS.highlights.get('term')?.size > 3")
    x, y = page.evaluate(TERM, "attention")
    page.mouse.click(x, y)
    entry = page.locator("#drawer .chosen")
    expect(entry).to_have_text("attention")
    expect(entry).to_be_focused()
    assert "#/model" in page.url
    expect(page.locator("#drawer h3").first).to_have_text("On this page")


def test_a_quoted_token_is_no_term(toys: Server, open_page: Callable[..., Page]) -> None:
    """“mask” as somebody's word is not the glossary's."""
    text = "softmax norm logit"
    page = open_page(toys.address("head", m="toy-decoder", x=text))
    settle(page)
    page.wait_for_function("CSS.highlights.get('term')?.size > 1")
    for word in text.split():
        assert page.evaluate(TERM, word) is None


@pytest.mark.slow
def test_what_is_kept_may_be_damaged(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    settle(page)
    for kept in ("{", "7", json.dumps({"attention": 5, EVIL: [EVIL]}), json.dumps([EVIL])):
        page.evaluate("(kept) => localStorage.setItem('glassformer-lessons', kept)", kept)
        page.reload()
        settle(page)
        page.keyboard.press("L")
        expect(page.locator("#drawer li")).to_have_count(6)
        expect(page.locator("#drawer")).not_to_contain_text("img")


@pytest.mark.parametrize("width", mostly_slow([320, 1280, 390, 1920]))
@pytest.mark.parametrize("theme", mostly_slow(["light", "dark"]))
def test_room(shipped: Server, open_page: Callable[..., Page], width: int, theme: str) -> None:
    """No sideways scrolling, whatever is open; the page stays usable beside it."""
    page = open_page(shipped.address("map", m="gf-encoder"), width=width, height=800, theme=theme)
    begin(page, "attention", shipped)
    arrived(page)
    assert not page.evaluate(WIDE)
    page.keyboard.press("G")
    settle(page)
    assert not page.evaluate(WIDE)
    box = page.locator("#drawer").bounding_box()
    assert box and box["height"] <= (0.5 * 800 if width < 960 else 800)
