"""Addresses, the way back, one-line refusals, and room on every screen."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.screens import READY, Server, drawn, settle
from sampling import mostly_slow

MAP, MATRIX = ".board canvas", ".matrix-pane canvas"
THERE_AND_BACK = """async (text) => {
  const { read, write } = await import("./state.js");
  const off = ["encoder.0.1", "cross.2.3"];
  const usual = read("", ["map", "head"]);
  const first = { ...usual, page: "head", text, off, threshold: 0.35, special: false };
  return [first, read(write(first), ["map", "head"])];
}"""
READ = """async (query) => (await import("./state.js")).read(`#/head?${query}`, ["head"])"""
MARKS = """async ([low, most]) => {
  const { chart } = await import("./charts.js");
  const series = [{ kind: "a", values: [0, 1] }];
  const node = chart({ label: "", wide: 300, high: 200, low, most, series, ticks: [] });
  return [...node.querySelectorAll("text[text-anchor=end]")].map((each) => each.textContent);
}"""
CLIPPED = """() => [...document.querySelectorAll("main .scroll:has(table:not([role=grid]))")]
  .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.ariaLabel)"""
PAGES = ("model", "map", "head", "numbers", "translate", "generate", "layers", "positions")


def test_the_address_is_the_state(toys: Server, open_page: Callable[..., Page]) -> None:
    """What was clicked together opens again from its address, part for part."""
    page = open_page(toys.address("head", m=toys.model("toy translator")))
    settle(page)
    page.get_by_role("button", name="cross", exact=True).click()
    page.get_by_role("button", name="layer after").click()
    page.get_by_role("button", name="mean", exact=True).click()
    page.get_by_label("special tokens").uncheck()
    for key in ("j", "T", "f", "d", "."):
        page.keyboard.press(key)
    drawn(page, MATRIX, "cross", "1", "mean", "dark")
    page.wait_for_timeout(1_000)
    again = open_page(page.url)
    settle(again)
    drawn(again, MATRIX, "cross", "1", "mean", "dark")
    assert again.url == page.url
    expect(again.get_by_role("main")).to_match_aria_snapshot(
        page.get_by_role("main").aria_snapshot()
    )


def test_addresses_are_read_as_they_are_written(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(toys.url)
    texts = ["a & b = c? #1 %41 + “”", "кот сел", "<b>", "\n\t"]
    for text in texts:
        state = page.evaluate(THERE_AND_BACK, text)
        assert state[0] == state[1]


@pytest.mark.slow
def test_what_cannot_be_is_as_usual(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    usual = page.evaluate(READ, "")
    for query in ("l=.5", "q=2.5", "s=1.5", "g=1.5", "om=1.5", "z=1e9", "seed=1e300", "k=1e30",
                  "theme=evil", "t=2", "p=7", "n=-1", "cp=NaN", "h=Infinity"):  # fmt: skip
        assert page.evaluate(READ, query) == usual, query
    told = page.evaluate(READ, "l=1&t=0.5&p=0.9&theme=dark")
    assert [told[name] for name in ("layer", "threshold", "mass", "theme")] == [1, 0.5, 0.9, "dark"]


def test_words_taken_that_are_not_there(toys: Server, open_page: Callable[..., Page]) -> None:
    """One line, and a way back."""
    page = open_page(toys.address("generate", m=toys.model("toy decoder"), took="0-999999"))
    expect(page.get_by_role("alert")).to_contain_text("numbers from 0 to 11")
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.locator(READY["generate"]).first.wait_for()


def test_marks_of_a_scale_differ(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    found = [page.evaluate(MARKS, [0, most]) for most in (0.1, 0.25, 1, 40)]
    assert found[0] == ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]
    assert found[1] == ["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"]
    assert found[2] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert found[3] == ["0", "10", "20", "30", "40"]


@pytest.mark.slow
def test_back_and_forth(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    settle(page)
    for key, question in (
        ("2", "What does this head look at?"),
        ("3", "How is this weight computed?"),
    ):
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(question)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("What does this head look at?")
    page.get_by_role("link", name="Translate").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("This model does not translate")
    page.get_by_role("button", name="toy translator").click()
    page.locator(READY["translate"]).first.wait_for()


def test_a_head_clicked_off_changes_the_answer(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    """Before and after stand side by side, as the server gives them."""
    page = open_page(toys.address())
    settle(page)
    text = page.locator("#text").input_value()
    asked = {"model": "toy-encoder", "text": text}
    before = toys.json("runs", asked)["predictions"]["at"][0]["top"]
    expect(page.locator("table.values tbody tr")).to_have_count(len(before))
    page.locator("[data-at='1.2']").hover()
    page.get_by_role("button", name="switch layer 1, head 2 off").click()
    page.locator("table.both").wait_for()
    after = toys.json("runs", {**asked, "off": [["encoder", 1, 2]]})["predictions"]["at"][0]["top"]
    assert [each["p"] for each in after] != [each["p"] for each in before]
    first = page.locator("table.both tbody tr").first.locator("th, td").all_text_contents()
    now = {each["text"]: each["p"] for each in after}
    assert first[:3] == [
        before[0]["text"],
        f"{before[0]['p']:.2f}",
        f"{now[before[0]['text']]:.2f}",
    ]
    page.get_by_role("button", name="All heads on").click()
    expect(page.locator("table.both")).to_have_count(0)


def test_a_refusal_is_one_calm_line(strangers: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(strangers.address(m=strangers.model("mute"), x="words, not numbers"))
    line = page.get_by_role("alert")
    expect(line).to_contain_text("this model came without a tokenizer")
    page.locator("#text").fill("5 7 9")
    page.keyboard.press("Enter")
    expect(line).to_be_hidden()
    drawn(page, MAP)
    page.get_by_role("link", name="Translate").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("No words to align")
    page.route("**/api/runs", lambda route: route.abort())
    page.locator("#text").fill("5 7 11")
    page.keyboard.press("Enter")
    expect(line).to_contain_text("does not answer")


@pytest.mark.slow
def test_a_run_that_the_server_has_dropped_is_asked_for_again(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(toys.address("head"))
    settle(page)
    for number in range(17):  # more than it keeps
        toys.json("runs", {"model": "toy-decoder", "text": " ".join(["man"] * (number + 1))})
    page.keyboard.press("]")
    drawn(page, MATRIX, "1")
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.parametrize("name", mostly_slow(PAGES))
@pytest.mark.parametrize(("width", "height"), mostly_slow([(390, 844), (1280, 720)]))
def test_nothing_is_wider_than_the_screen(
    toys: Server, open_page: Callable[..., Page], name: str, width: int, height: int
) -> None:
    state = {"m": toys.model("toy translator"), "how": "sample", "k": 3, "p": 0.9}
    page = open_page(toys.address(name, **state), width=width, height=height)
    settle(page)
    assert page.evaluate(CLIPPED) == []
    for large in (False, True):
        if large:
            page.keyboard.press("l")
            page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("l")
    if width > 1000:
        assert page.evaluate("document.documentElement.scrollHeight") <= height
