"""Everything by keyboard and by ear: shortcuts, focus, roles."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.handling import NAMELESS, check_by_tab
from browser.screens import Server, settle
from sampling import every_nth, mostly_slow

KEYS = """async () => (await import("./keys.js")).KEYS
  .map(([key, does, , pages]) => [key, does, pages ?? null])"""
IN_SIGHT = """() => [...document.querySelectorAll("main .strip, main .steps")].map((list) => {
  const [room, box] = [list, list.querySelector("[aria-pressed=true], [aria-current]")]
    .map((each) => each.getBoundingClientRect());
  return (list.scrollTop > 0 || list.scrollLeft > 0) && box.top > room.top - 1
    && box.left > room.left - 1 && box.bottom < room.bottom + 1 && box.right < room.right + 1;
})"""
PAGES = (
    "model", "map", "head", "numbers", "translate", "generate", "layers", "positions", "space",
    "neurons", "pooling", "toy",
)  # fmt: skip


def look(page: Page) -> tuple[str, object]:
    return page.url, page.evaluate(
        "[document.querySelector('dialog[open]')?.id, document.activeElement?.id ?? '']"
    )


@pytest.mark.parametrize("step", mostly_slow([8, 1]))
def test_every_shortcut_does_something(
    toys: Server, open_page: Callable[..., Page], step: int
) -> None:
    """From one of two places at least: at the end of a list its last key cannot do more."""
    translator = {"m": toys.model("toy translator"), "in": "decoder"}
    begin = {"l": 0, "h": 0, "q": 0, "s": 0, "wd": 0, "t": 0.5}
    end = {"l": 1, "h": 3, "q": 3, "s": 5, "wd": 2, "t": 0.5, "off": "decoder.0.0"}
    end |= {"g": 2, "took": "1-17", "om": 2, "bm": 0, "dot": 2, "pin": "decoder.1.1"}
    end |= dict.fromkeys(("o", "from"), "The dog lay on the sofa")
    page = open_page(toys.address("map", **translator))
    settle(page)
    keys = page.evaluate(KEYS)
    assert len(keys) > 25
    for key, does, pages in keys[::step]:
        if pages == ["training"]:
            continue  # it takes a run: see test_studio_lab_pages.py
        where = (
            pages[0] if pages else "head" if key == "1" else "numbers" if key == "Escape" else "map"
        )
        model = {"m": toys.model("toy encoder")} if does == "mask this token" else translator
        places = (toys.address(where, **{**translator, **model, **at}) for at in (begin, end))
        assert any(pressed(page, at, key) for at in places), f"{key} ({does}) does nothing"


def pressed(page: Page, address: str, key: str) -> bool:
    """Whether a key changes anything there."""
    page.goto(address)
    settle(page)
    if key == "Z":  # something must have been undone
        page.keyboard.press("z")
        page.wait_for_timeout(20)
    before = look(page)
    page.keyboard.press(key)
    for _ in range(40):  # a busy machine takes a while
        page.wait_for_timeout(20)
        if changed := look(page) != before:
            break
    if page.locator("dialog[open]").count():
        page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    return changed


def test_the_help_lists_every_shortcut(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    settle(page)
    page.keyboard.press("?")
    rows = page.get_by_role("dialog").get_by_role("row")
    text = "\n".join(rows.all_text_contents())
    for key, does, _ in page.evaluate(KEYS):
        assert does in text and (key in text or key == "Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert "#/model" in page.url or "#" not in page.url


@pytest.mark.parametrize("name", mostly_slow(PAGES))
def test_a_page_by_tab(toys: Server, open_page: Callable[..., Page], name: str) -> None:
    page = open_page(toys.address(name, m=toys.model("toy translator")))
    settle(page)
    page.wait_for_timeout(100)
    check_by_tab(page)


@pytest.mark.slow
def test_what_is_chosen_is_in_sight(strangers: Server, open_page: Callable[..., Page]) -> None:
    """Lists that are longer than their room are scrolled; the page is not."""
    text = " ".join(["xyz"] * 62)
    walk = {"m": strangers.model("bert"), "x": text, "q": 60, "s": 8}
    page = open_page(strangers.address("numbers", **walk))
    page.set_viewport_size({"width": 320, "height": 600})
    settle(page)
    page.keyboard.press("b")
    settle(page)
    assert page.evaluate(IN_SIGHT) == [True, True]
    writing = {"m": strangers.model("gpt2"), "x": "a", "n": 32, "g": 31}
    page = open_page(strangers.address("generate", **writing))
    page.set_viewport_size({"width": 320, "height": 600})
    settle(page)
    page.keyboard.press("b")
    settle(page)
    assert page.evaluate(IN_SIGHT) == [True]
    assert page.evaluate("document.scrollingElement.scrollTop") == 0


def test_the_map_by_keyboard(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address())
    settle(page)
    page.locator(".board [tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator(".board :focus")).to_have_attribute("data-at", "1.1")
    expect(page.locator("#live")).to_have_text(re.compile("encoder, layer 1, head 1"))
    page.keyboard.press("x")
    expect(page.locator(".board :focus")).to_have_class(re.compile("off"))
    expect(page.locator("#live")).to_have_text(re.compile("off"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/head.*l=1&h=1"))
    settle(page)
    expect(page.locator("#live")).to_have_text(re.compile(r"looks at “.+” [<\d.]+, “"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text("Which heads do something here?")


SNAPSHOTS = {
    "model": """
      - heading "What does the whole model do with this text?" [level=1]
      - button "Step through"
      - img /Colours. probability, from 0 to 1/
      - region "The whole model":
        - group "Drawing of the model":
          - grid /Encoder. a column for each token/:
            - rowheader "embedding"
            - rowheader /L0 attention/:
              - button "attention of layer 0, mean of its heads"
            - row:
              - columnheader "encoder"
              - 'columnheader "token 0: “[CLS]”"'
      - region "The chosen token and layer":
        - heading /.\\[MASK\\]. in layer 0/ [level=2]
        - table "What each part adds to the token's vector"
        - link "Head"
        - link "Numbers"
        - link "Layers"
        - link "Lab"
      - region "Predictions"
      - region "Heads of this layer":
        - link "L0·H0"
    """,
    "map": """
      - heading "Which heads do something here?" [level=1]
      - combobox "Colour by"
      - img /Colours. weight, from 0.00 to 1.00/
      - complementary "Tokens"
      - region "Map of heads":
        - grid "Heads, one row a layer":
          - rowgroup:
            - row "layer 0 1 2 3"
          - rowgroup:
            - row:
              - rowheader "0"
              - gridcell "layer 0, head 0" [selected]
              - gridcell "layer 0, head 1"
      - region "Predictions"
      - region "The chosen head":
        - heading /Layer 0, head 0/ [level=2]
        - button "Look closer"
        - button "Switch off"
        - table "Measures of this head"
    """,
    "head": """
      - heading "What does this head look at?" [level=1]
      - group "layer":
        - button "layer before" [disabled]
        - button "layer after"
      - group "Weights":
        - button "raw" [pressed]
        - button "value-weighted"
        - button "rollout"
        - button "mean"
      - region "Lines":
        - slider "Threshold of the lines"
      - region "Matrix":
        - checkbox "special tokens" [checked]
        - checkbox "word pieces apart" [checked]
      - region "The chosen token's weights":
        - group "Table of weights":
          - table /Weights of .*, largest first/
    """,
    "numbers": """
      - heading "How is this weight computed?" [level=1]
      - group "The token that looks"
      - navigation "All steps":
        - list "Steps":
          - listitem:
            - button "Input of the layer"
      - region "This step":
        - heading /Input of the layer/ [level=2]
        - button "Back" [disabled]
        - button "Next"
        - group "Numbers of this step":
          - group /token embedding, 32 numbers/
    """,
    "translate": """
      - heading "Which source word made this one?" [level=1]
      - region "Links"
      - region "Alignment"
      - region "The translation"
      - region "The chosen word":
        - table "Source words, the strongest first"
      - region "The three kinds of attention":
        - button /Map of the encoder. 2 layers of 4 heads/
        - button /Map of the decoder. 2 layers of 4 heads/
        - button /Map of the cross. 2 layers of 4 heads/
    """,
    "generate": """
      - heading "Why this word next?" [level=1]
      - group "How to choose":
        - button "greedy" [pressed]
        - button "sample"
        - button "beam search"
      - combobox "at most"
      - group /The text. choose a word/:
        - text: <start>
        - button "кот" [pressed]
        - button "сел"
      - region "Candidates":
        - heading /What comes after .<start>../ [level=2]
        - button "Back" [disabled]
        - button "Next"
        - group "Table of candidates":
          - table /Candidates, the likeliest first/:
            - rowgroup:
              - row "word model"
            - rowgroup:
              - row /кот 0.99 chosen/:
                - rowheader "кот":
                  - button "кот" [pressed]
        - button "Choose “кот”"
      - region "What the new token looks at":
        - combobox "Looks at"
        - combobox "Layer"
        - combobox "Head"
        - table /.<start>. looks at, the most first/
      - region "The cache":
        - img "1 token of 12, 1 of them new"
        - 'img "the source: 7 tokens, written once"'
        - table "The cache at this step":
          - rowgroup
          - rowgroup:
            - row "kept 1 token"
            - row "written now 1 token"
            - row "read back now 0 tokens"
            - row "source, written 7 tokens"
            - row "one token 512 bytes"
            - row "in use 4,096 bytes"
            - row "reserved 9,728 bytes"
    """,
    "layers": """
      - heading "When is the answer decided?" [level=1]
      - group "The word":
        - button "[MASK]" [pressed]
      - region "Logit lens":
        - group /Probability of the final answer/
      - region "Logit lens at this token":
        - heading /At .\\[MASK\\]. it ends with .money./ [level=2]
        - group "Table of the lens":
          - table /Logit lens at each point/:
            - rowgroup:
              - row "point top p p of “money” KL (bits)"
            - rowgroup:
              - row /embedding .* 2.94/
        - img /KL to final output/
      - region "Trajectory of a word":
        - textbox "Another sentence"
        - img /Cosines of .* at 5 points/
        - group "Table of cosines":
          - table /Cosines of/
    """,
    "positions": """
      - heading "How does it know the order?" [level=1]
      - group "Show":
        - button "the slides' waves" [pressed]
        - button "this model's positions"
        - button "shuffle the words"
      - slider "Position": "20"
      - region "Curves":
        - img /6 curves; at position 20. index 0 0.91/
      - region "Matrix of positions":
        - group /All positions/
      - region "Similarity":
        - heading /How like position 20 are the others/ [level=2]
        - img "Cosine of position 20 to all others"
        - table "Most like position 20":
          - rowgroup
          - rowgroup:
            - row "19 0.969"
    """,
    "space": """
      - heading "Which words are alike?" [level=1]
      - group "Show":
        - button "all words" [pressed]
        - button "one word"
        - button "sentences"
      - slider "Layer": "3"
      - region "The texts":
        - list:
          - listitem:
            - group "Text 1":
              - button "deposited"
        - textbox "Own texts, one a line"
        - button "Compare"
        - button "Reset"
      - region "Points":
        - img /\\d+ words at final norm/
      - region "Cosines":
        - heading /in text/ [level=2]
        - group "Table of cosines":
          - table /Cosines of/
    """,
    "neurons": """
      - heading "What activates a neuron?" [level=1]
      - group "layer"
      - group "unit":
        - button "unit before"
        - button "unit after"
      - region "The strongest units":
        - group "Table of units":
          - table "The strongest units at each token":
            - rowgroup
            - rowgroup:
              - row:
                - rowheader "[CLS]":
                  - button "[CLS]"
                - cell:
                  - button /unit \\d+. /
      - region "The chosen unit":
        - heading /Unit \\d+ of layer 0/ [level=2]
        - group "The text, coloured by this unit":
          - button "[MASK]" [pressed]
        - group "Table of activations":
          - table /Activations of unit \\d+, the largest first/
        - button "Switch off"
      - region "Predictions"
    """,
    "pooling": """
      - heading "Which words make up a document?" [level=1]
      - group "Show":
        - button "the slides' numbers" [pressed]
        - button "variants, trained here"
      - region "v · x → r → a → mixture":
        - heading "v · x → r → a → mixture" [level=2]
        - 'group "Table: v · x → r → a → mixture"':
          - table "v · x → r → a → mixture"
      - region "Which v?"
      - region "Queries and keys of 37 numbers, or of 100?"
    """,
    "toy": """
      - heading "What can one head do that a table cannot?" [level=1]
      - group "Toy":
        - button "first toy" [pressed]
        - button "second toy"
      - group "seed":
        - button "seed before"
        - button "seed after"
      - region /One head. the next word/
      - region "Attention weights (T×T)":
        - heading "Attention weights (T×T)" [level=2]
      - region "Words or position?"
      - region "A bigram table (T×V)"
      - region "The slide's W · X cannot work"
      - region "What works instead"
    """,
}


@pytest.mark.parametrize("name", every_nth(PAGES, 6))
def test_what_a_screen_reader_finds(
    toys: Server, open_page: Callable[..., Page], name: str
) -> None:
    model = "toy translator" if name in ("translate", "generate") else "toy encoder"
    page = open_page(toys.address(name, m=toys.model(model)))
    settle(page)
    expect(page.get_by_role("main")).to_match_aria_snapshot(SNAPSHOTS[name])
    assert page.evaluate(NAMELESS) == []
